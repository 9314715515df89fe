// What the pages need beside htmx: times in the reader's zone, and keys in the inbox. Without it everything still works.
(() => {
  const format = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

  function writeTimes(root) {
    for (const time of root.querySelectorAll("time[datetime]")) {
      const moment = new Date(time.dateTime);
      if (!Number.isNaN(moment.valueOf())) time.title = format.format(moment);
    }
  }

  function cards() {
    return [...document.querySelectorAll(".gate")];
  }

  function move(by) {
    const all = cards();
    if (!all.length) return;
    const now = all.findIndex((card) => card.contains(document.activeElement));
    const next = all[Math.max(0, Math.min(all.length - 1, now + by))];
    next.querySelector("input[name=reason], a")?.focus();
    next.scrollIntoView({ block: "nearest" });
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const writes = event.target instanceof Element && event.target.closest("input, select, textarea");
    if (event.key === "Escape" && writes) event.target.blur();
    if (writes) return;
    if (event.key === "j") move(1);
    else if (event.key === "k") move(-1);
    else if (event.key === "a" || event.key === "d") {
      const card = document.activeElement?.closest(".gate") ?? (cards().length === 1 ? cards()[0] : null);
      card?.querySelector(`button[data-key="${event.key}"]`)?.focus();
    } else return;
    event.preventDefault();
  });

  // What somebody is writing must not be taken away by a change of the page.
  document.addEventListener("htmx:before:sse:message", (event) => {
    const at = document.activeElement;
    if (at && at.matches("#live input, #live textarea") && at.value) event.detail.message.cancelled = true;
  });
  document.addEventListener("htmx:after:sse:message", () => writeTimes(document));
  writeTimes(document);
})();
