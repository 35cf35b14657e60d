// Owns playing an answer again as it came: the log's texts at the log's times. Asks once, when a button is pressed.
"use strict";

for (const player of document.querySelectorAll(".replay")) {
  const said = player.querySelector(".said");
  const status = player.querySelector("output");
  let events = null;
  let frame = 0;

  async function load() {
    if (events) return;
    status.textContent = "Loading …";
    const response = await fetch(player.dataset.source, { headers: { Accept: "application/json" } });
    if (!response.ok) throw new Error(`the server says ${response.status}`);
    events = (await response.json()).events;
  }

  function play(speed) {
    cancelAnimationFrame(frame);
    said.textContent = "";
    const began = performance.now();
    let next = 0;
    const step = () => {
      const at = speed ? (performance.now() - began) * speed : Infinity;
      let text = "";
      while (next < events.length && events[next][0] <= at) text += events[next++][1];
      if (text) said.append(text);
      const done = next >= events.length;
      const shown = done ? (events.length ? events[events.length - 1][0] : 0) : at;
      status.textContent = `${(shown / 1000).toFixed(1)} s, event ${next} of ${events.length}`;
      if (!done) frame = requestAnimationFrame(step);
    };
    step();
  }

  player.addEventListener("click", async (click) => {
    const speed = click.target.dataset.speed;
    if (speed === undefined) return;
    try {
      await load();
      play(Number(speed));
    } catch (error) {
      status.textContent = `Not to be had: ${error.message}`;
    }
  });
}
