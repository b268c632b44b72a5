// Sorts tables, steps through the points of a plot, copies plots. The page is complete without it.
const each = (selector, act) => document.querySelectorAll(selector).forEach(act);

// Numbers by value, other texts by name.
function compare(a, b) {
  const x = parseFloat(a), y = parseFloat(b);
  return isNaN(x) || isNaN(y) || x === y ? a.localeCompare(b) : x - y;
}

// Sorts by the button's column, or reverses it. Empty cells are last in both directions.
function sort(button) {
  const head = button.closest("th"), body = head.closest("table").tBodies[0];
  const order = head.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
  const text = (row) => row.cells[head.cellIndex].textContent;
  const sign = order === "ascending" ? 1 : -1;
  for (const other of head.parentNode.cells) other.setAttribute("aria-sort", "none");
  head.setAttribute("aria-sort", order);
  body.append(...[...body.rows].sort((a, b) =>
    !text(a) - !text(b) || sign * compare(text(a), text(b))));
}

each("th[aria-sort] button", (button) => {
  button.disabled = false;
  button.addEventListener("click", () => sort(button));
});

// Shows a point's text below its plot.
function show(event) {
  const figure = event.currentTarget.closest("figure");
  const point = event.target.closest(".point");
  if (point) figure.querySelector(".at").textContent = point.firstChild.textContent;
}

// Left and right: along the line and on to the next one. Home and End: first and last.
function step(event) {
  const points = [...event.currentTarget.querySelectorAll(".point")];
  const at = points.indexOf(document.activeElement), last = points.length - 1;
  const next = { ArrowRight: Math.min(at + 1, last), ArrowDown: Math.min(at + 1, last),
    ArrowLeft: Math.max(at - 1, 0), ArrowUp: Math.max(at - 1, 0), Home: 0, End: last }[event.key];
  if (next === undefined || last < 0) return;
  event.preventDefault();
  points[next].focus();
}

each("figure svg", (svg) => {
  svg.querySelectorAll(".point").forEach((point) => point.setAttribute("tabindex", "-1"));
  svg.addEventListener("pointerover", show);
  svg.addEventListener("focusin", show);
  svg.addEventListener("keydown", step);
});

// A plot as PNG with the page's colours, twice as large as it is drawn.
async function picture(svg) {
  const copy = svg.cloneNode(true), style = getComputedStyle(svg), { width, height } = svg.viewBox.baseVal;
  for (let i = 0; i < 12; i++) copy.style.setProperty("--c" + i, style.getPropertyValue("--c" + i));
  copy.style.color = style.color;
  copy.setAttribute("width", 2 * width);
  copy.setAttribute("height", 2 * height);
  const image = new Image();
  image.src = "data:image/svg+xml," + encodeURIComponent(new XMLSerializer().serializeToString(copy));
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = 2 * width;
  canvas.height = 2 * height;
  const context = canvas.getContext("2d");
  context.fillStyle = getComputedStyle(document.body).backgroundColor;
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(image, 0, 0);
  return canvas;
}

// Copies a plot to the clipboard, or saves it if the browser does not allow that.
async function copy(button) {
  const canvas = await picture(button.closest("figure").querySelector("svg"));
  const said = button.nextElementSibling;
  try {
    const blob = await new Promise((done) => canvas.toBlob(done));
    await navigator.clipboard.write([new ClipboardItem({ "image/png": blob })]);
    said.textContent = "copied";
  } catch {
    const link = document.createElement("a");
    link.href = canvas.toDataURL();
    link.download = "plot.png";
    link.click();
    said.textContent = "saved as plot.png";
  }
}

each("button.copy", (button) => {
  button.hidden = false;
  button.addEventListener("click", () => copy(button));
});
