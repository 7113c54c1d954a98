"use strict";
// Shows news without losing the reader's place. Without this script, reloading the page does the same.
(() => {
  let due = null;
  let busy = false;
  let again = false;
  let source = null;
  let timer = null;
  const refresh = async () => {
    due = null;
    again = busy;
    if (busy) return;
    busy = true;
    try {
      const answer = await fetch(location.href, { credentials: "same-origin" });
      if (!answer.ok || answer.redirected) return;
      const next = new DOMParser().parseFromString(await answer.text(), "text/html");
      const main = document.getElementById("main");
      const fresh = next.getElementById("main");
      // Whoever is writing, or choosing, is not disturbed.
      if (!main || !fresh || main.querySelector("input:focus, select:focus, textarea:focus")) return;
      for (const open of main.querySelectorAll("details[open][id]")) {
        const same = fresh.querySelector("#" + CSS.escape(open.id));
        if (same) same.open = true;
      }
      // Of what is read far down, the same part stays in sight.
      const scrolled = new Map([...main.querySelectorAll(".side[id], pre")].map((of, at) => [of.id || at, of.scrollTop]));
      const at = document.activeElement;
      const place = main.contains(at) && at.closest("[id]");
      if (main.innerHTML !== fresh.innerHTML) main.replaceWith(document.adoptNode(fresh));
      [...document.querySelectorAll("#main .side[id], #main pre")].forEach((of, at) => {
        const top = scrolled.get(of.id || at);
        if (top) of.scrollTop = top;
      });
      const same = place && document.getElementById(place.id);
      const target = same && (same.querySelector("summary, a.row") || same);
      if (target && document.activeElement !== target) target.focus({ preventScroll: true });
      follow(next.body.dataset);
    } catch {
      // The server is away: the next look may find it.
    } finally {
      busy = false;
      if (again) refresh();
    }
  };
  // A row of a timeline opens beside it, and has an address; without this script the whole page is loaded.
  document.addEventListener("click", async (event) => {
    const link = event.target.closest && event.target.closest("a[data-row]");
    if (!link || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    event.preventDefault();
    const isClosed = !link.dataset.row;
    history.pushState(null, "", link.href);
    await refresh();
    const side = document.getElementById(isClosed ? "timeline" : "panel");
    const box = side && side.getBoundingClientRect();
    if (box && (box.top < 0 || box.top > innerHeight * 0.8)) side.scrollIntoView({ block: "start" });
  });
  addEventListener("popstate", () => refresh());
  const soon = () => { due = due || setTimeout(refresh, 400); };
  const kinds = ["step-entered", "step-finished", "step-called", "element-called", "requested", "replied", "wait-started", "signal-received", "grant-asked", "calls-asked", "input-asked", "input-answered", "inner-requested", "inner-replied", "run-finished"];
  // What a page says of its news may change: a long run is read, goes on, and ends.
  // Models' answers while they come, below the page: a round each, until the event that ends it has the answer.
  const rounds = new Map();
  const MOST = 262144;
  const answers = () => {
    let box = document.getElementById("answers");
    if (!box) {
      box = document.createElement("aside");
      box.id = "answers";
      box.setAttribute("aria-label", "Answers of models as they come");
      const main = document.getElementById("main");
      main.parentNode.insertBefore(box, main.nextSibling);
    }
    return box;
  };
  const show = (piece) => {
    let round = rounds.get(piece.effect);
    if (piece.ended || piece.restarted) {
      if (round) round.box.remove();
      rounds.delete(piece.effect);
      return;
    }
    if (!round) {
      const box = document.createElement("section");
      answers().append(box);
      round = { box, parts: new Map(), bytes: 0 };
      rounds.set(piece.effect, round);
    }
    const part = (name, title, folded) => {
      if (!round.parts.has(name)) {
        const of = document.createElement(folded ? "details" : "div");
        const head = document.createElement(folded ? "summary" : "b");
        const text = document.createElement("pre");
        head.textContent = title;
        of.append(head, text);
        round.box.append(of);
        round.parts.set(name, text);
      }
      return round.parts.get(name);
    };
    const add = (at, text) => {
      round.bytes += text.length;
      if (round.bytes <= MOST) at.append(text);
    };
    const call = piece.call;
    const progress = piece.progress;
    if (piece.text) add(part("text", "answers", false), piece.text);
    else if (piece.reasoning) add(part("reasoning", "reasoning", true), piece.reasoning);
    else if (call && call.tool !== undefined) part("call " + call.number, "calls " + call.tool, false).textContent = "";
    else if (call && call.arguments) add(part("call " + call.number, "calls", false), call.arguments);
    else if (progress) {
      const count = progress.total === undefined ? progress.done : progress.done + " of " + progress.total;
      const shown = [count || "", progress.message].filter(Boolean).join(": ");
      part("progress", "progress", false).textContent = shown;
    }
  };
  const follow = ({ live, every }) => {
    if (live && !source && window.EventSource) {
      source = new EventSource(live);
      source.addEventListener("piece", (event) => show(JSON.parse(event.data)));
      // What was told before the connection broke is told again from the beginning of each round.
      source.addEventListener("error", () => [...rounds.keys()].forEach((effect) => show({ effect, ended: true })));
      for (const kind of kinds) source.addEventListener(kind, soon);
      source.addEventListener("run-finished", () => source.close());
    } else if (!live && source) {
      source.close();
      source = null;
    }
    if (every && !timer) timer = setInterval(() => { if (!document.hidden) refresh(); }, Number(every));
    if (!every && timer) timer = clearInterval(timer);
  };
  follow(document.body.dataset);
})();
