// What a reader would notice on the page that is open, as a list of sentences: empty if nothing jars.
() => {
  const found = [];
  const article = document.querySelector("article");
  const width = document.documentElement.clientWidth;
  const shown = (e) => e.checkVisibility({ opacityProperty: true, visibilityProperty: true });
  const named = (e) => `<${e.tagName.toLowerCase()} class="${e.getAttribute("class") ?? ""}"> ${e.textContent.trim().slice(0, 40)}`;

  // Width: the page does not scroll sideways; what is wider than the window is in a box that does.
  if (document.documentElement.scrollWidth > width) found.push(`the page is ${document.documentElement.scrollWidth} wide, the window ${width}`);
  const scrolls = (e) => ["auto", "scroll"].includes(getComputedStyle(e).overflowX);
  const inBox = (e) => { for (let p = e; p !== null; p = p.parentElement) if (scrolls(p)) return true; return false; };
  for (const e of article.querySelectorAll("*")) {
    const box = e.getBoundingClientRect();
    if (box.width > 0 && box.right > width + 1 && !inBox(e) && shown(e)) found.push(`beyond the right edge: ${named(e)}`);
  }

  // Pictures are there; formulas have a size and no error.
  for (const image of article.querySelectorAll("img")) {
    if (!(image.complete && image.naturalWidth > 0)) found.push(`no picture: ${image.getAttribute("src")}`);
  }
  for (const formula of article.querySelectorAll("math")) {
    const box = formula.getBoundingClientRect();
    if (formula.querySelector("merror") || (shown(formula) && (box.width < 3 || box.height < 5))) found.push(`formula: ${named(formula)}`);
  }
  for (const error of document.querySelectorAll(".problematic, .system-message, .MathJax_Error")) found.push(`markup: ${named(error)}`);

  // Text: sources of formulas and Markdown outside code; contrast of all text with what is behind it (WCAG 2, 4.5 or 3 if large).
  const channel = (c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const known = new Map();
  const rgba = (colour) => {
    if (!known.has(colour)) {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = colour;
      canvas.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
      known.set(colour, [r / 255, g / 255, b / 255, a / 255]);
    }
    return known.get(colour);
  };
  const over = (top, under) => top.slice(0, 3).map((c, i) => c * top[3] + under[i] * (1 - top[3]));
  const behind = new Map([[null, [1, 1, 1]]]);
  const background = (e) => {
    if (!behind.has(e)) behind.set(e, over(rgba(getComputedStyle(e).backgroundColor), background(e.parentElement)));
    return behind.get(e);
  };
  const luminance = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const raw = /\$[^$]+\$|\\\(|\\\[|\\[a-zA-Z]{2,}|[\^_]\{|\*\*|\]\(|```|\{\w+\}`/;
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const pale = new Map();
  while (texts.nextNode()) {
    const text = texts.currentNode;
    const e = text.parentElement;
    if (text.data.trim() === "" || e.closest("script, style, noscript, template, .visually-hidden, .sr-only") || !shown(e)) continue;
    if (article.contains(e) && !e.closest("code, pre, dt.sig, math")) {
      const hit = text.data.match(raw);
      if (hit) found.push(`source text: ${hit[0]} in ${text.data.trim().slice(0, 80)}`);
    }
    const style = getComputedStyle(e);
    const under = background(e);
    const [light, dark] = [luminance(over(rgba(style.color), under)), luminance(under)].sort((a, b) => b - a);
    const ratio = (light + 0.05) / (dark + 0.05);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    if (ratio < (large ? 3 : 4.5)) {
      const what = `contrast ${ratio.toFixed(2)}: ${style.color} in <${e.tagName.toLowerCase()} class="${e.getAttribute("class") ?? ""}">`;
      pale.set(what, text.data.trim().slice(0, 40));
    }
  }
  for (const [what, text] of pale) found.push(`${what} ${text}`);

  // Structure: one title, and something below it.
  const titles = document.querySelectorAll("h1").length;
  if (titles !== 1) found.push(`${titles} titles`);
  if (article.innerText.trim().length < 60) found.push("hardly any text");
  return found;
}
