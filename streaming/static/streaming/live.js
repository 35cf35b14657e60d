// Owns the table of what runs now: told over a WebSocket, asked for where none gets through; and the stop buttons.
"use strict";

const ASK_MS = 2000;
const RECONNECT_MS = 5000;
const FORBIDDEN = [4401, 4403];
const page = document.querySelector(".live");
const body = document.getElementById("live-rows");
const total = document.getElementById("live-total");
const status = document.getElementById("live-status");
const seen = new Map(); // response id -> its row and the last two counts
let asking = 0;

function cell(row, text, className) {
  const td = row.insertCell();
  td.className = className || "";
  td.textContent = text;
  return td;
}

function quiet(td, text) {
  const span = document.createElement("span");
  span.className = "quiet";
  span.textContent = ` ${text}`;
  td.append(span);
}

function age(seconds) {
  return seconds < 100 ? `${seconds.toFixed(0)} s` : `${Math.floor(seconds / 60)} min ${Math.floor(seconds % 60)} s`;
}

function make(answer) {
  const row = document.createElement("tr");
  row.dataset.id = answer.id;
  const link = document.createElement("a");
  link.href = `${page.dataset.response}${answer.id.replace("_", "_5F")}/change/`;
  link.textContent = answer.id;
  cell(row, "").append(link);
  quiet(cell(row, answer.user), answer.purpose);
  const served = cell(row, answer.model);
  quiet(served, answer.engine);
  const state = document.createElement("span");
  cell(row, "").append(state);
  const figures = [0, 0, 0, 0].map(() => cell(row, "", "number"));
  const last = cell(row, "");
  if (page.dataset.stop) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "stop";
    button.textContent = "Stop";
    button.setAttribute("aria-label", `Stop ${answer.id}`);
    last.append(button);
  }
  return { row, state, served, figures, last, counts: [] };
}

function update(known, answer, now) {
  known.state.className = `state ${answer.state}`;
  known.state.textContent = answer.state;
  known.served.lastChild.textContent = ` ${answer.engine}`;
  known.counts.push([now, answer.tokens]);
  if (known.counts.length > 4) known.counts.shift();
  const [[then, before]] = known.counts;
  const rate = now > then ? ((answer.tokens - before) / (now - then)) * 1000 : null;
  const shown = [
    age(Math.max(0, (now - Date.parse(answer.created_at)) / 1000)),
    answer.tokens.toLocaleString("en"),
    rate === null ? "" : rate.toFixed(1),
    answer.readers,
  ];
  known.figures.forEach((td, n) => (td.textContent = shown[n]));
}

function show(told) {
  const now = Date.now();
  total.textContent = told.total;
  const ids = new Set(told.rows.map((answer) => answer.id));
  for (const id of [...seen.keys()]) if (!ids.has(id)) seen.delete(id);
  const rows = told.rows.map((answer) => {
    if (!seen.has(answer.id)) seen.set(answer.id, make(answer));
    const known = seen.get(answer.id);
    update(known, answer, now);
    return known.row;
  });
  if (!rows.length) {
    const none = document.createElement("tr");
    const td = cell(none, "Nothing runs.", "quiet");
    td.colSpan = 9;
    rows.push(none);
  }
  // A row that stays keeps its place in the document, and a button its focus.
  for (const row of [...body.children]) if (!rows.includes(row)) row.remove();
  rows.forEach((row, n) => {
    if (body.children[n] !== row) body.insertBefore(row, body.children[n] || null);
  });
}

function listen() {
  const address = new URL(page.dataset.socket, location.href);
  address.protocol = address.protocol === "https:" ? "wss:" : "ws:";
  const socket = new WebSocket(address);
  socket.onmessage = (message) => {
    const told = JSON.parse(message.data);
    clearInterval(asking);
    status.textContent = told.type === "live" ? "live" : "the database does not answer";
    if (told.type === "live") show(told);
  };
  socket.onclose = (closed) => {
    if (FORBIDDEN.includes(closed.code)) {
      status.textContent = closed.reason || "not allowed";
      return;
    }
    status.textContent = "asking every two seconds";
    clearInterval(asking);
    asking = setInterval(ask, ASK_MS);
    ask();
    setTimeout(listen, RECONNECT_MS);
  };
}

async function ask() {
  try {
    const response = await fetch(page.dataset.rows);
    if (!response.ok) throw new Error(response.status);
    show(await response.json());
  } catch (error) {
    status.textContent = `the server does not answer (${error.message})`;
  }
}

body.addEventListener("click", async (click) => {
  const button = click.target.closest("button.stop");
  if (!button) return;
  button.disabled = true;
  button.textContent = "Stopping …";
  const id = button.closest("tr").dataset.id;
  const headers = { "X-CSRFToken": page.querySelector("[name=csrfmiddlewaretoken]").value, Accept: "application/json" };
  try {
    const response = await fetch(`${page.dataset.stop}${id}/stop/`, { method: "POST", headers });
    if (!response.ok) throw new Error(response.status);
    const end = await response.json();
    button.textContent = end.end_state || "asked";
  } catch (error) {
    button.disabled = false;
    button.textContent = `Stop (${error.message})`;
  }
});

listen();
