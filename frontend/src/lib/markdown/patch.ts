// Owns changing shown nodes into wanted ones with the fewest writes, so that a selection in them survives.

/** Nodes that are shown as something else than what was parsed (code blocks). */
export interface Widgets {
  /** True if it took care of the pair. */
  update(old: ChildNode, next: ChildNode): boolean;
  /** The node to put into the page for a newly parsed one. */
  create(next: ChildNode): Node;
}

const NO_WIDGETS: Widgets = { update: () => false, create: (next) => next };

/** Makes the children of `shown` from `first` on equal to those of `wanted`, whose nodes it takes. */
export function patchChildren(shown: Node, first: number, wanted: Node, widgets: Widgets = NO_WIDGETS): void {
  let old: ChildNode | null = shown.childNodes[first] ?? null;
  let next = wanted.firstChild;
  while (next) {
    const following: ChildNode | null = next.nextSibling;
    if (old === null) {
      shown.appendChild(widgets.create(next));
    } else {
      const after: ChildNode | null = old.nextSibling;
      patchNode(old, next, widgets);
      old = after;
    }
    next = following;
  }
  while (old) {
    const after: ChildNode | null = old.nextSibling;
    old.remove();
    old = after;
  }
}

function patchNode(old: ChildNode, next: ChildNode, widgets: Widgets): void {
  if (widgets.update(old, next)) return;
  if (old.nodeType !== next.nodeType || old.nodeName !== next.nodeName) {
    old.replaceWith(widgets.create(next));
  } else if (old instanceof Element && next instanceof Element) {
    patchAttributes(old, next);
    patchChildren(old, 0, next, widgets);
  } else if (old instanceof CharacterData && next instanceof CharacterData) {
    patchText(old, next.data);
  }
}

function patchText(node: CharacterData, text: string): void {
  if (node.data === text) return;
  if (text.startsWith(node.data)) node.appendData(text.slice(node.data.length));
  else node.data = text;
}

function patchAttributes(old: Element, next: Element): void {
  for (const { name, value } of Array.from(next.attributes)) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const { name } of Array.from(old.attributes)) {
    if (!next.hasAttribute(name)) old.removeAttribute(name);
  }
}
