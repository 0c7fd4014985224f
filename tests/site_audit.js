// Returns sentences about what a reader would see wrong on the open page in one mode: none if nothing is wrong.
(mode) => {
  const found = [];
  const content = document.querySelector("article:not(:empty)") ?? document.querySelector(".content");
  const width = document.documentElement.clientWidth;
  const shown = (e) => e.checkVisibility({ opacityProperty: true, visibilityProperty: true });
  const named = (e) => `<${e.tagName.toLowerCase()} class="${e.getAttribute("class") ?? ""}"> ${e.textContent.trim().slice(0, 40)}`;

  // Width: the page does not scroll sideways; what is wider than the window is in a box of its own that scrolls.
  for (const e of [document.documentElement, content.closest(".content")]) {
    if (e.scrollWidth > e.clientWidth) found.push(`the page is ${e.scrollWidth} px wide and the window ${width} px`);
  }
  const scrolls = new Map([[content, false]]);
  const isInBox = (e) => {
    if (!scrolls.has(e)) scrolls.set(e, ["auto", "scroll"].includes(getComputedStyle(e).overflowX) || isInBox(e.parentElement));
    return scrolls.get(e);
  };
  const beyond = new Set();
  for (const e of content.querySelectorAll("*")) {
    const box = e.getBoundingClientRect();
    if (box.width === 0 || box.right <= width + 1 || isInBox(e) || !shown(e)) continue;
    if (!beyond.has(e.parentElement)) found.push(`beyond the right edge: ${named(e)}`);
    beyond.add(e);
  }
  if (mode === "phone") return found;

  // Contrast of text with what is behind it (WCAG 2: 4.5, or 3 for large letters).
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const colours = new Map();
  const rgba = (colour) => {
    if (!colours.has(colour)) {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = colour;
      canvas.fillRect(0, 0, 1, 1);
      colours.set(colour, [...canvas.getImageData(0, 0, 1, 1).data].map((c) => c / 255));
    }
    return colours.get(colour);
  };
  const over = (top, under) => top.slice(0, 3).map((c, i) => c * top[3] + under[i] * (1 - top[3]));
  const backgrounds = new Map([[null, [1, 1, 1]]]);
  const behind = (e) => {
    if (!backgrounds.has(e)) backgrounds.set(e, over(rgba(getComputedStyle(e).backgroundColor), behind(e.parentElement)));
    return backgrounds.get(e);
  };
  const channel = (c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  const luminance = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const contrast = (top, under) => {
    const [light, dark] = [luminance(over(top, under)), luminance(under)].sort((a, b) => b - a);
    return (light + 0.05) / (dark + 0.05);
  };
  // Sources of formulas and of Markdown outside code.
  const source = /\$[^$]*\$|\\\(|\\\[|\\\*|\\[a-zA-Z]{2,}|[\^_]\{|\w\^\w|\*\*|\]\(|```|\{\w+\}`/;
  const seen = new Set();
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const text = texts.currentNode;
    const e = text.parentElement;
    if (text.data.trim() === "" || e.closest("script, style, noscript, template, .visually-hidden")) continue;
    if (mode === "light" && content.contains(e) && !e.closest("code, pre, math, dt.sig")) {
      const hit = text.data.match(source);
      if (hit) found.push(`source text: ${hit[0]} in: ${text.data.trim().slice(0, 80)}`);
    }
    const style = getComputedStyle(e);
    const under = behind(e);
    const key = [style.color, style.fontSize, style.fontWeight, ...under].join();
    if (seen.has(key) || !shown(e)) continue;
    seen.add(key);
    const size = parseFloat(style.fontSize);
    const least = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700) ? 3 : 4.5;
    const ratio = contrast(rgba(style.color), under);
    if (ratio < least) found.push(`contrast ${ratio.toFixed(2)}: ${named(e)}`);
  }
  if (mode === "dark") return found;

  // What does not depend on the mode: pictures, formulas, errors of the markup, one title, some text.
  for (const image of content.querySelectorAll("img")) {
    if (!image.complete || image.naturalWidth === 0) found.push(`no picture: ${image.getAttribute("src")}`);
    if (/^$|[/]/.test(image.alt)) found.push(`a picture without words: ${image.getAttribute("src")}`);
  }
  for (const formula of content.querySelectorAll("math")) {
    const box = formula.getBoundingClientRect();
    const below = [...formula.querySelectorAll("munderover > mo:last-child")].some((mo) => "ˆˉ~".includes(mo.textContent));
    if (below || formula.querySelector("merror") || box.width < 3 || box.height < 5) found.push(`formula: ${named(formula)}`);
  }
  for (const error of content.querySelectorAll(".problematic, .system-message")) found.push(`markup: ${named(error)}`);
  for (const name of content.querySelectorAll("dl.field-list > dt")) {
    if (name.textContent.startsWith("Type")) found.push(`words taken for a type: ${named(name.nextElementSibling)}`);
  }
  const titles = content.querySelectorAll("h1").length;
  if (titles !== 1) found.push(`${titles} titles`);
  if (content.innerText.trim().length < 60) found.push("hardly any text");
  return found;
}
