// Owns the room below a question that was just asked: it stands at the top, and its answer fills what is below.

const GAP_PX = 12;

export class Room {
  #held: HTMLElement | null = null;

  /** Makes the newest answer so high that its question is at the top when the end is shown. */
  fit(area: HTMLElement, content: HTMLElement, answer: HTMLElement | null): void {
    if (this.#held !== answer) this.#held?.style.removeProperty('min-height');
    this.#held = answer;
    const question = answer?.previousElementSibling;
    if (!answer || !question) return;
    const place = answer.getBoundingClientRect();
    const above_px = place.top - question.getBoundingClientRect().top;
    const below_px = content.getBoundingClientRect().bottom - place.bottom;
    answer.style.minHeight = `${Math.max(0, area.clientHeight - above_px - below_px - GAP_PX)}px`;
  }
}
