"use strict";
// Shows news without losing the reader's place. Without this script, reloading the page does the same.
(() => {
  let due = null;
  let busy = false;
  let source = null;
  let timer = null;
  const refresh = async () => {
    due = null;
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
      const at = document.activeElement;
      const place = main.contains(at) && at.closest("[id]");
      if (main.innerHTML !== fresh.innerHTML) main.replaceWith(document.adoptNode(fresh));
      const again = place && document.getElementById(place.id);
      const target = again && (again.matches("details") ? again.querySelector("summary") : again);
      if (target && document.activeElement !== target) target.focus({ preventScroll: true });
      follow(next.body.dataset);
    } catch {
      // The server is away: the next look may find it.
    } finally {
      busy = false;
    }
  };
  const soon = () => { due = due || setTimeout(refresh, 400); };
  const kinds = ["step-entered", "step-finished", "step-called", "element-called", "requested", "replied", "wait-started", "signal-received", "grant-asked", "calls-asked", "input-asked", "input-answered", "run-finished"];
  // What a page says of its news may change: a long run is read, goes on, and ends.
  const follow = ({ live, every }) => {
    if (live && !source && window.EventSource) {
      source = new EventSource(live);
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
