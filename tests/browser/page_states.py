"""What is lost of an open page where it is enlarged, and what moves on it for whoever asked that nothing does.

A window of 1280 pixels at 200 % is one of 640 to the page (WCAG 1.4.4): all that could be read can still be, and
nothing is read by moving sideways (1.4.10), but for tables and drawings, which scroll in themselves.
"""

from typing import Any, Literal

from playwright.async_api import Page

WHOLE, ENLARGED = {"width": 1280, "height": 1024}, {"width": 640, "height": 512}

SECONDARY = ".list .mid, .list .more, .runs th:nth-child(4), .runs td:nth-child(4)"
"""Cells that narrow pages leave out: the page that their row leads to has them."""

WORDS = """(secondary) => {
  for (const box of document.querySelectorAll(".show-filters input")) box.checked = true;
  const left = [...document.querySelectorAll(secondary)];
  left.forEach((one) => one.style.setProperty("display", "none", "important"));
  const found = document.body.innerText.toLowerCase().match(/\\p{L}{2,}/gu) ?? [];
  left.forEach((one) => one.style.removeProperty("display"));
  return [...new Set(found)];
}"""
"""Returns the words that can be seen, or read to somebody, filters opened; figures change by themselves."""

LAID_OUT = """() => {
  const found = [], wide = document.documentElement.scrollWidth;
  if (wide > innerWidth) found.push(`is ${wide} wide`);
  const scrolls = (one) => one && (/auto|scroll/.test(getComputedStyle(one).overflowX) || scrolls(one.parentElement));
  for (const element of document.body.querySelectorAll("*")) {
    const { left, right } = element.getBoundingClientRect();
    if (right <= left || (left >= -1 && right <= innerWidth + 1) || element.closest(".unseen, .skip")) continue;
    if (element.innerText?.trim() && !scrolls(element)) {
      found.push(`has outside ${element.localName}.${element.className} ${element.innerText.trim().slice(0, 30)}`);
    }
  }
  return found.slice(0, 5);
}"""
"""Returns what of the page can't be reached where it is as wide as it is."""

MOVING = """() => {
  const found = new Set(), seen = new Set(), longest = (times) => Math.max(...times.split(",").map(parseFloat));
  for (const element of document.querySelectorAll("*")) {
    const name = `${element.localName}.${element.getAttribute("class") ?? ""}`;
    if (seen.size === seen.add(name).size) continue;
    for (const part of [null, "::before", "::after"]) {
      const style = getComputedStyle(element, part);
      if (style.animationName !== "none" && longest(style.animationDuration) > 0.01) found.add(`${name} is animated`);
      if (longest(style.transitionDuration) > 0.01) found.add(`${name} changes slowly`);
      if (style.scrollBehavior === "smooth") found.add(`${name} scrolls slowly`);
    }
  }
  for (const one of document.getAnimations()) found.add(`${one.animationName ?? one.transitionProperty} runs`);
  return [...found];
}"""
"""Returns what of the page moves, or would where something changes; elements of one class are alike."""


async def zoom_faults(page: Page) -> list[str]:
    """Return what is lost of an open page at 200 %."""
    await page.set_viewport_size(WHOLE)
    words: list[str] = await page.evaluate(WORDS, SECONDARY)
    await page.set_viewport_size(ENLARGED)
    found: list[str] = [f"at 200 % it {one}" for one in await page.evaluate(LAID_OUT)]
    lost = set(words) - set(await page.evaluate(WORDS, SECONDARY))
    return found + [f"at 200 % nobody reads {sorted(lost)[:8]}"] * bool(lost)


async def moving(page: Page, wish: Literal["reduce", "no-preference"]) -> list[str]:
    """Return what moves on an open page for whoever has that *wish*."""
    await page.emulate_media(reduced_motion=wish)
    found: list[Any] = await page.evaluate(MOVING)
    return [f"{one}, with the wish {wish}" for one in found]
