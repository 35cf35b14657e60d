// Owns the last step before the page: what of rendered HTML may become nodes. Everything else is dropped.
import DOMPurify, { type Config } from 'dompurify';

import { hostOf, isSafeUrl } from './urls';

export const ALLOWED_TAGS = [
  ...['p', 'br', 'hr', 'strong', 'em', 's', 'code', 'pre', 'blockquote', 'ul', 'ol', 'li', 'a', 'div', 'span'],
  ...['h3', 'h4', 'h5', 'h6', 'table', 'thead', 'tbody', 'tr', 'th', 'td'],
];
export const ALLOWED_ATTRIBUTES = ['href', 'title', 'class', 'dir', 'start', 'data-content', 'data-host', 'rel', 'target'];
const CLASSES = new Set(['table-wrap', 'image-link', 'task', 'ta-left', 'ta-center', 'ta-right']);
const HEADING_CLASS = /^md-h[1-6]$/;

/** The one Trusted Types policy of the page's own code; only the sanitiser is given it. */
const trustedTypesPolicy = (
  globalThis as { trustedTypes?: { createPolicy(name: string, rules: object): unknown } }
).trustedTypes?.createPolicy('app', { createHTML: (html: string) => html, createScriptURL: refuse });

const config = {
  ALLOWED_TAGS,
  ALLOWED_ATTR: ALLOWED_ATTRIBUTES,
  ALLOW_DATA_ATTR: false,
  ALLOW_ARIA_ATTR: false,
  RETURN_DOM_FRAGMENT: true as const,
  ...(trustedTypesPolicy ? { TRUSTED_TYPES_POLICY: trustedTypesPolicy } : {}),
} as unknown as Config & { RETURN_DOM_FRAGMENT: true };

const purifier = DOMPurify(window);
purifier.addHook('uponSanitizeAttribute', (_node, data) => {
  if (data.attrName === 'class') data.keepAttr = CLASSES.has(data.attrValue) || HEADING_CLASS.test(data.attrValue);
  if (data.attrName === 'href') data.keepAttr = isSafeUrl(data.attrValue);
});
purifier.addHook('afterSanitizeAttributes', (node) => {
  if (node.nodeName === 'A') dressLink(node);
});

export function sanitise(html: string): DocumentFragment {
  return purifier.sanitize(html, config);
}

function dressLink(link: Element): void {
  const href = link.getAttribute('href');
  if (href === null) return;
  link.setAttribute('rel', 'noopener noreferrer nofollow');
  link.setAttribute('target', '_blank');
  const host = hostOf(href);
  if (host && !link.textContent?.includes(host)) link.setAttribute('data-host', host);
  else link.removeAttribute('data-host');
}

function refuse(): never {
  throw new TypeError('no script address is ever trusted');
}
