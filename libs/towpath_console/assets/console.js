// What the pages need beside htmx: times in the reader's zone, and keys in the inbox. Without it everything still works.
(() => {
  const format = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

  // The same as the server writes, in the reader's zone: of today the hour, else the day, and the year of another.
  const two = (number) => String(number).padStart(2, "0");
  const month = new Intl.DateTimeFormat("en", { month: "short" });
  function writeTimes(root) {
    const now = new Date();
    for (const time of root.querySelectorAll("time[datetime]")) {
      const moment = new Date(time.dateTime);
      if (Number.isNaN(moment.valueOf())) continue;
      time.title = format.format(moment);
      if ("until" in time.dataset) continue;
      const minute = `${two(moment.getHours())}:${two(moment.getMinutes())}`;
      const day = `${two(moment.getDate())} ${month.format(moment)}`;
      const isToday = moment.toDateString() === now.toDateString();
      const shown = isToday ? `${minute}:${two(moment.getSeconds())}` : moment.getFullYear() === now.getFullYear() ? `${day} ${minute}` : `${day} ${moment.getFullYear()}`;
      if (time.textContent !== shown) time.textContent = shown;
    }
  }

  // A time to come says how long that is from now, beside when it is; what waits, for how long it has.
  function writeTimesLeft() {
    for (const time of document.querySelectorAll("time[data-until]")) {
      const minutes = Math.round((new Date(time.dateTime) - Date.now()) / 60000);
      time.dataset.at ??= time.textContent;
      const beyond = minutes % 60 ? ` ${minutes % 60} min` : "";
      const left = minutes < 1 ? "now" : minutes < 60 ? `in ${minutes} min` : minutes < 2880 ? `in ${Math.floor(minutes / 60)} h${beyond}` : `in ${Math.floor(minutes / 1440)} d`;
      time.textContent = `${left} (${time.dataset.at})`;
      time.classList.toggle("soon", minutes < 60);
    }
    for (const since of document.querySelectorAll("[data-since]")) {
      const minutes = Math.floor((Date.now() - new Date(since.dataset.since)) / 60000);
      const gone = minutes < 60 ? `${minutes} min` : minutes < 2880 ? `${Math.floor(minutes / 60)} h` : `${Math.floor(minutes / 1440)} d`;
      since.textContent = minutes < 1 ? "" : `, ${gone} ago`;
    }
  }

  const title = document.title;
  function writeTitle() {
    const waiting = document.querySelector("[data-waiting]")?.dataset.waiting;
    document.title = waiting > 0 ? `(${waiting}) ${title}` : title;
  }

  function cards() {
    return [...document.querySelectorAll(".gate")];
  }

  function move(by) {
    const all = cards();
    if (!all.length) return;
    const now = all.findIndex((card) => card.contains(document.activeElement));
    const next = all[Math.max(0, Math.min(all.length - 1, now + by))];
    next.focus();
    next.scrollIntoView({ block: "nearest" });
  }

  // A word is chosen by its key and said with Enter. One that needs a reason asks for it first.
  function choose(key) {
    const card = document.activeElement?.closest(".gate") ?? (cards().length === 1 ? cards()[0] : null);
    const button = card?.querySelector(`[data-key="${key}"]`);
    if (!button) return false;
    const reason = card.querySelector("input[name=reason]");
    for (const other of card.querySelectorAll("[data-key]")) other.classList.toggle("chosen", other === button);
    (reason && "reason" in button.dataset && !reason.value.trim() ? reason : button).focus();
    return true;
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const at = event.target instanceof Element ? event.target : document.body;
    if (event.key === "Enter" && at.matches(".gate input[name=reason]")) {
      at.closest(".gate").querySelector("button.chosen")?.click();
      event.preventDefault();
      return;
    }
    if (event.key === "Enter" && at.matches(".gate")) at.querySelector("h3 a")?.click();
    const writes = at.closest("input:not([type=checkbox]), select, textarea");
    if (event.key === "Escape" && writes) (at.closest(".gate") ?? at).focus() ?? at.blur();
    if (writes) return;
    if (event.key === "j") move(1);
    else if (event.key === "k") move(-1);
    else if (!/^[a-z]$/.test(event.key) || !choose(event.key)) return;
    event.preventDefault();
  });

  // Whoever decides card by card goes on at the one that takes the place of what was decided.
  const PLACE = "decided-card";
  document.addEventListener("submit", (event) => {
    const card = event.target.closest(".gate");
    if (card && cards().length > 1) sessionStorage.setItem(PLACE, cards().indexOf(card));
  });
  function goOn() {
    const place = sessionStorage.getItem(PLACE);
    sessionStorage.removeItem(PLACE);
    if (place === null || !document.querySelector("[data-waiting]") || !new URLSearchParams(location.search).has("message")) return;
    const next = cards()[Math.min(place, cards().length - 1)];
    next?.focus();
    next?.scrollIntoView({ block: "nearest" });
  }

  // What somebody is writing must not be taken away by a change of the page: it waits until nothing is written.
  const live = document.getElementById("live");
  let held = false;
  function isWriting() {
    const fields = document.querySelectorAll("#live input:not([type=hidden]), #live textarea");
    return [...fields].some((field) => field.value !== field.defaultValue);
  }
  document.addEventListener("htmx:before:sse:message", (event) => {
    const message = event.detail.message;
    if (message.event || !isWriting()) return;
    message.cancelled = held = true;
    tellDecided(message.data);
  });
  document.addEventListener("input", () => {
    if (!held || isWriting()) return;
    held = false;
    reconnect();
  });

  // A card that was decided while somebody writes on it says so; nothing that is written can be sent there any more.
  function tellDecided(html) {
    const now = new DOMParser().parseFromString(html, "text/html");
    for (const card of cards()) {
      const next = now.getElementById(card.id);
      if (!card.querySelector(".decide") || next?.querySelector(".decide") || card.querySelector(".stale")) continue;
      const told = document.createElement("p");
      told.className = "stale";
      told.setAttribute("role", "alert");
      const link = document.createElement("a");
      link.href = card.id.replace("gate-", "/approvals/");
      link.textContent = "Look at it as it is now.";
      const how = next?.querySelector(".closed")?.textContent.replace(/\s+/g, " ").trim();
      told.append(`It was decided meanwhile, or changed${how ? `: ${how}` : ""}. `, link);
      card.prepend(told);
      for (const button of card.querySelectorAll(".decide button")) button.disabled = true;
    }
  }

  // An open page says when it is not live, and when it is again. Streams are sent something every 15 seconds.
  // The time of day may be set back meanwhile, and the other clock stands still while a machine sleeps: the longer time counts.
  const SILENT_MS = 40000;
  let heard = performance.now();
  let heardAt = Date.now();
  function hear() {
    heard = performance.now();
    heardAt = Date.now();
  }
  let cut = false;
  let shut = false;
  let away = document.hidden;
  function reconnect() {
    live._htmx?.sse?.reader?.cancel();
  }
  function setState(word) {
    const shown = document.getElementById("liveness");
    if (shown) shown.dataset.state = word;
  }
  function sayLiveness(tone, sign, words) {
    const shown = document.getElementById("liveness");
    if (!shown || shown.textContent === `${sign} ${words}`) return;
    const status = document.createElement("span");
    status.className = `status ${tone}`;
    const mark = document.createElement("span");
    mark.setAttribute("aria-hidden", "true");
    mark.textContent = sign;
    status.append(mark, ` ${words}`);
    shown.replaceChildren(...(words ? [status] : []));
  }
  function tellCut() {
    if (shut) return;
    cut = true;
    setState("cut");
    sayLiveness("warn", "◌", "Not live, trying again");
  }
  function tellBack() {
    hear();
    away = false;
    setState("live");
    if (!cut) return;
    cut = false;
    sayLiveness("good", "●", "Live again");
    setTimeout(() => cut || shut || sayLiveness("", "", ""), 15000);
  }
  function tellRefused(code) {
    shut = true;
    setState("refused");
    const why = code === 401 ? "you are no longer signed in" : code === 403 ? "you may no longer see it" : "it is not there any more";
    sayLiveness("bad", "✕", `Not live: ${why}. Load the page again.`);
  }
  // A connection that nobody takes fails late: a page that was opened, or is looked at again, waits a moment.
  function tellCutUnlessBack() {
    const since = performance.now();
    setTimeout(() => heard <= since && !document.hidden && tellCut(), 4000);
  }
  if (live?.hasAttribute("hx-sse:connect")) {
    tellCutUnlessBack();
    const of = (event) => event.target === live;
    const isFinal = (code) => code >= 400 && code < 500 && ![408, 425, 429].includes(code);
    live.addEventListener("htmx:before:sse:connection", (event) => {
      if (shut) event.preventDefault();
      else if (event.detail.connection.attempt > 0 && !away) tellCut();
      else if (away) tellCutUnlessBack();
    });
    live.addEventListener("htmx:after:sse:message", hear);
    live.addEventListener("htmx:sse:error", (event) => (isFinal(event.detail.status) ? tellRefused(event.detail.status) : tellCut()));
    live.addEventListener("cut", tellCut);
    live.addEventListener("live", tellBack);
    live.addEventListener("end", () => (shut = true) && sayLiveness("", "", ""));
    document.addEventListener("visibilitychange", () => document.hidden && (away = true));
    // The first connection is an ordinary request, which nothing tries again.
    const again = () => setTimeout(() => live._htmx?.sse || shut || htmx.ajax("GET", live.getAttribute("hx-sse:connect"), { source: live }), 1000 + 3000 * Math.random());
    live.addEventListener("htmx:before:response", (event) => {
      const answer = event.detail.ctx.response;
      if (!of(event) || answer.headers.get("Content-Type")?.includes("text/event-stream")) return;
      event.preventDefault(); // a problem is no part of the page
      if (isFinal(answer.status)) tellRefused(answer.status);
      else tellCut(), again();
    });
    live.addEventListener("htmx:error", (event) => {
      if (of(event) && !live._htmx?.sse && !shut) tellCut(), again();
    });
    setInterval(() => {
      if (document.hidden || shut || Math.max(Date.now() - heardAt, performance.now() - heard) < SILENT_MS) return;
      tellCut();
      reconnect();
    }, 5000);
  }
  // htmx ends a stream by aborting its request and then cancels its reader, which fails with that abort: heard by nobody.
  addEventListener("unhandledrejection", (event) => event.reason?.name === "AbortError" && event.preventDefault());
  // An id that is shown short is copied whole, a secret from where it stands; without a clipboard there is no button.
  function writeCopies() {
    if (!navigator.clipboard) return;
    for (const button of document.querySelectorAll("[data-copy][hidden], [data-copy-of][hidden]")) button.hidden = false;
  }
  document.addEventListener("click", async (event) => {
    const button = event.target.closest?.("[data-copy], [data-copy-of]");
    if (!button) return;
    const word = button.querySelector("span");
    const before = word.dataset.word ?? word.textContent;
    word.dataset.word = before;
    await navigator.clipboard.writeText(button.dataset.copy ?? document.getElementById(button.dataset.copyOf).textContent);
    word.textContent = "Copied";
    setTimeout(() => (word.textContent = before), 2000);
  });
  function written() {
    writeCopies();
    writeTimes(document);
    writeTimesLeft();
    writeTitle();
  }
  document.addEventListener("htmx:after:sse:message", written);
  setInterval(writeTimesLeft, 20000);
  const strip = document.querySelector(".menu nav ul");
  const current = strip?.querySelector("[aria-current]");
  if (current) strip.scrollLeft = current.offsetLeft - strip.clientWidth / 3; // a phone's menu scrolls sideways
  written();
  goOn();
})();
