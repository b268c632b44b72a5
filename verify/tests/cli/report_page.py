#!/usr/bin/env python3
"""Checks pages of weir-report: `report_page.py static PAGE` reads the HTML, `report_page.py browser CHROMIUM
PAGE WIDTH...` looks at it in headless Chromium, and puts screenshots into the folder $SHOTS if it is set.
Prints faults, one per line; ends with 1 if there are any."""
import base64
import hashlib
import html.parser
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

VOID = {"meta", "link", "br", "img", "input", "hr", "path", "rect", "circle", "polygon", "line", "use"}
PLOT = {"title", "desc", "aria-labelledby", "aria-describedby", "tabindex", "figcaption", "button"}


class Page(html.parser.HTMLParser):
    """Elements that are open, ids, and what each figure and table contains."""

    def __init__(self, text):
        super().__init__()
        self.faults, self.open, self.ids, self.refs, self.figures, self.headings = [], [], [], [], [], []
        self.labels, self.points, self.titled = 0, 0, 0
        self.feed(text)
        self.close()
        self.faults += [f"not closed: {tag}" for tag in self.open]

    def handle_starttag(self, tag, attrs):
        attr = dict(attrs)
        if "id" in attr:
            self.ids.append(attr["id"])
        for name, value in attrs:
            if name in ("src", "srcset", "xlink:href", "action") or name == "href" and value[:1] != "#":
                self.faults.append(f"external reference: {tag} {name}={value}")
            if name.startswith("on"):
                self.faults.append(f"handler in an attribute: {tag} {name}")
            if name in ("aria-labelledby", "aria-describedby"):
                self.refs += value.split()
            if name == "href":
                self.refs.append(value[1:])
        if tag == "figure":
            self.figures.append(set())
        elif "figure" in self.open and attr.get("class") == "machine":
            self.figures[-1] |= PLOT if {"role", "aria-label"} <= attr.keys() else set()
        elif "figure" in self.open:
            self.figures[-1] |= {tag, *attr}
        if tag == "th" and "thead" in self.open and "aria-sort" in attr:
            self.headings.append(False)
        if tag == "button" and self.open[-1] == "th":
            self.headings[-1] = True
        if attr.get("class") == "point":
            self.points += 1
        if tag not in VOID or tag == "circle":
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if self.open and self.open[-1] == tag and tag not in VOID or tag == "circle":
            self.open.pop()

    def handle_endtag(self, tag):
        if not self.open or self.open[-1] != tag:
            self.faults.append(f"</{tag}> closes {self.open[-1:]}")
        else:
            self.open.pop()

    def handle_data(self, data):
        if self.open[-2:] == ["circle", "title"] and re.search(r"; .* [-+.e0-9]+(; .+)?$", data):
            self.titled += 1


def static(path):
    text = pathlib.Path(path).read_text(encoding="utf-8")
    page = Page(text)
    faults = page.faults
    faults += [f"id twice: {i}" for i in sorted({i for i in page.ids if page.ids.count(i) > 1})]
    faults += [f"no such id: {i}" for i in page.refs if i not in page.ids]
    for i, has in enumerate(page.figures):
        faults += [f"figure {i} lacks {what}" for what in sorted(PLOT - has)]
    if not page.headings or not all(page.headings):
        faults.append("a heading that cannot sort")
    if page.points != page.titled or page.figures and not page.points:
        faults.append(f"{page.points} points, {page.titled} of them with name, values")
    if re.search(r"url\(|@import|<link", text):
        faults.append("external reference in style")
    light, dark = (re.search(pattern, text, re.S).group(1) for pattern in
                   (r"\n:root \{(.*?)\}", r"\(prefers-color-scheme: dark\) \{ :root \{(.*?)\}"))
    for colour in [f"--c{i}:" for i in range(12)] + ["--page:", "--text:"]:
        faults += [f"{mode} has no {colour}" for mode, has in (("light", light), ("dark", dark)) if colour not in has]
    faults += [f"no colour {side}" for side in ("--a: var(--c1)", "--b: var(--c0)") if side not in light]
    script = re.search(r'<script type="module">(.*?)</script>', text, re.S).group(1)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    if f"script-src 'sha256-{digest}'" not in text:
        faults.append(f"report.html permits another script than report.js: its hash is sha256-{digest}")
    return faults


class Browser:
    """Headless Chromium, driven by Chrome's DevTools protocol over a pair of pipes."""

    def __init__(self, program, folder):
        to_read, self.write = os.pipe()
        self.read, to_write = os.pipe()
        shell = f'exec "$0" "$@" 3<&{to_read} 4>&{to_write}'
        self.process = subprocess.Popen(
            ["bash", "-c", shell, program, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
             "--remote-debugging-pipe", f"--user-data-dir={folder}", "about:blank"],
            pass_fds=(to_read, to_write), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(to_write)
        self.count, self.buffer, self.session, self.faults, self.events = 0, b"", None, [], []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(domain + ".enable")

    def message(self):
        while b"\0" not in self.buffer:
            part = os.read(self.read, 1 << 16)
            if not part:
                raise SystemExit("the browser ended")
            self.buffer += part
        text, self.buffer = self.buffer.split(b"\0", 1)
        message = json.loads(text)
        if message.get("method") in ("Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled"):
            self.faults.append("console: " + json.dumps(message["params"])[:300])
        self.events.append(message.get("method"))
        return message

    def call(self, method, **params):
        self.count += 1
        request = {"id": self.count, "method": method, "params": params}
        if self.session:
            request["sessionId"] = self.session
        os.write(self.write, json.dumps(request).encode() + b"\0")
        while True:
            message = self.message()
            if message.get("id") == self.count:
                if "error" in message:
                    raise SystemExit(f"{method}: {message['error']}")
                return message["result"]

    def open(self, path, width, scheme):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.events = []
        self.call("Page.navigate", url=pathlib.Path(path).absolute().as_uri())
        while "Page.loadEventFired" not in self.events:
            self.message()

    def run(self, script):
        got = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in got:
            raise SystemExit(f"{script}: {got['exceptionDetails']}")
        return got["result"].get("value")

    def key(self, key, text=""):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, text=text if kind == "keyDown" else "",
                      windowsVirtualKeyCode={"Tab": 9, "Enter": 13, "ArrowRight": 39, "End": 35}[key])

    def end(self):
        self.process.terminate()
        self.process.wait()


# Texts of a plot that overlap each other or exceed the plot; what exceeds the page; dim texts.
LOOK = """(() => {
  document.querySelectorAll("details").forEach(d => d.open = true);
  const faults = [], root = document.documentElement;
  if (root.scrollWidth > root.clientWidth) faults.push(`wider than the page: ${root.scrollWidth}`);
  document.querySelectorAll("svg").forEach((svg, n) => {
    const frame = svg.getBoundingClientRect();
    const boxes = [...svg.querySelectorAll("text")].filter(t => t.textContent.trim()).map(t => [t.textContent.trim(), t.getBoundingClientRect()]);
    boxes.forEach(([a, p], i) => {
      if (p.left < frame.left - 1 || p.right > frame.right + 1 || p.top < frame.top - 1 || p.bottom > frame.bottom + 1)
        faults.push(`plot ${n}: "${a}" exceeds the plot`);
      boxes.slice(i + 1).forEach(([b, q]) => {
        if (Math.min(p.right, q.right) - Math.max(p.left, q.left) > 1 && Math.min(p.bottom, q.bottom) - Math.max(p.top, q.top) > 3)
          faults.push(`plot ${n}: "${a}" overlaps "${b}"`);
      });
    });
  });
  const part = (text, i) => parseFloat(text.match(/[\\d.]+/g)[i]) / 255;
  const light = colour => [0, 1, 2].map(i => part(colour, i)).map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
  const page = light(getComputedStyle(document.body).backgroundColor);
  const contrast = colour => { const c = light(colour); return (Math.max(c, page) + .05) / (Math.min(c, page) + .05); };
  document.querySelectorAll("p, td, th, a, figcaption, h2, svg text").forEach(e => {
    const style = getComputedStyle(e), colour = e.tagName === "text" ? style.fill : style.color;
    if (contrast(colour) < 4.5) faults.push(`${e.tagName} "${e.textContent.slice(0, 20)}" has contrast ${contrast(colour)}`);
  });
  document.querySelectorAll(".point, figure svg:not(.machine) path").forEach(e => {
    const style = getComputedStyle(e), colour = e.tagName === "path" ? style.stroke : style.fill;
    if (contrast(colour) < 1.8) faults.push(`a ${e.tagName} has contrast ${contrast(colour)}`);
  });
  return faults;
})()"""


def use_table(browser):
    """Sorts the first table by its first column twice, with the keyboard."""
    faults = []
    column = 'var head = document.querySelector("th[aria-sort]"); [...head.closest("table").tBodies[0].rows].map(r => +r.cells[0].textContent)'
    before = browser.run(column)
    browser.run("head.firstChild.focus()")
    for order, want in (("ascending", sorted(before)), ("descending", sorted(before)[::-1])):
        browser.key("Enter", "\r")
        if browser.run(column) != want or browser.run('head.getAttribute("aria-sort")') != order:
            faults.append(f"not sorted, {order}: {browser.run(column)}")
    return faults


def use_plot(browser):
    """Steps through the points of the first plot, and copies it."""
    faults = []
    browser.run('var figure = document.querySelector("figure"); figure.querySelector("svg").focus()')
    for key, place in (("ArrowRight", "0"), ("ArrowRight", "1"), ("End", "points.length - 1")):
        browser.key(key)
        if not browser.run('var points = figure.querySelectorAll(".point"); points[%s] === document.activeElement && '
                           'figure.querySelector(".at").textContent === document.activeElement.textContent' % place):
            faults.append(f"{key} does not reach point {place}")
    box = browser.run('(() => { const b = points[0].getBoundingClientRect(); figure.querySelector(".at").textContent = "";'
                      'return [b.x + b.width / 2, b.y + b.height / 2]; })()')
    browser.call("Input.dispatchMouseEvent", type="mouseMoved", x=box[0], y=box[1])
    if "; " not in browser.run('figure.querySelector(".at").textContent'):
        faults.append("hover shows no values")
    browser.run('figure.querySelector("button").focus()')
    browser.key("Enter", "\r")
    said = browser.run('new Promise(done => { const look = () => { const said = figure.querySelector("[role=status]").textContent;'
                       'said || --tries < 0 ? done(said) : setTimeout(look, 50); }; var tries = 200; look(); })')
    if said not in ("copied", "saved as plot.png"):
        faults.append(f"the picture was not copied: {said}")
    return faults


def focus_order(browser):
    """Tab goes through the page from top to bottom, and not through each point."""
    order = []
    while len(order) < 1000:
        browser.key("Tab")
        order.append(browser.run('[...document.querySelectorAll("body *")].indexOf(document.activeElement)'))
        if order[-1] < 0 or order[-1] in order[:-1]:
            break
    plots = browser.run('[...document.querySelectorAll("figure svg")].map(e => [...document.querySelectorAll("body *")].indexOf(e))')
    faults = [] if order[0] == 0 and order[:-1] == sorted(order[:-1]) else [f"Tab goes {order}"]
    return faults + [f"Tab does not reach plot {plot}" for plot in plots if plot not in order]


def without_script(browser, path):
    """Nothing that needs a script can be pressed, values of points and rows are there, on paper too."""
    browser.call("Emulation.setScriptExecutionDisabled", value=True)
    browser.open(path, 1000, "light")
    faults = browser.run("""[...document.querySelectorAll("button")].filter(b => !b.disabled && b.checkVisibility())
        .map(b => `without script there is a button: ${b.textContent}`)""")
    box = browser.run("""(() => { const point = document.querySelector(".point"); point.scrollIntoView();
        const box = point.getBoundingClientRect(), x = box.x + box.width / 2, y = box.y + box.height / 2;
        return document.elementFromPoint(x, y).querySelector("title") !== null; })()""")
    if not box:
        faults.append("without script the mouse does not reach a point")
    browser.call("Emulation.setEmulatedMedia", media="print")
    if not browser.run('document.querySelector("td").checkVisibility() && [...document.querySelectorAll("details td")]'
                       '.every(e => e.checkVisibility({contentVisibilityAuto: true}))'):
        faults.append("rows are not printed")
    browser.call("Emulation.setDeviceMetricsOverride", width=680, height=900, deviceScaleFactor=1, mobile=False)
    faults += browser.run("""[...document.querySelectorAll("table, svg")].filter(e => e.getBoundingClientRect().right > innerWidth)
        .map(e => `wider than paper: ${e.textContent.slice(0, 40)}`)""")
    browser.call("Emulation.setScriptExecutionDisabled", value=False)
    return faults


def look(browser, path, widths):
    faults = []
    for width in widths:
        for scheme in ("light", "dark"):
            browser.open(path, width, scheme)
            faults += [f"{width} {scheme}: {fault}" for fault in browser.run(LOOK)]
            if "SHOTS" in os.environ:
                height = browser.run("document.documentElement.scrollHeight")
                shot = browser.call("Page.captureScreenshot", captureBeyondViewport=True, clip={
                    "x": 0, "y": 0, "width": width, "height": height, "scale": 1})
                pathlib.Path(os.environ["SHOTS"], f"{width}-{scheme}.png").write_bytes(base64.b64decode(shot["data"]))
    browser.open(path, widths[-1], "light")
    faults += focus_order(browser)
    browser.run('document.querySelectorAll("details").forEach(d => d.open = true)')
    return faults + use_table(browser) + use_plot(browser) + without_script(browser, path) + browser.faults


def main():
    if sys.argv[1] == "static":
        found = static(sys.argv[2])
    else:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
            browser = Browser(sys.argv[2], folder)
            try:
                found = look(browser, sys.argv[3], [int(width) for width in sys.argv[4:]])
            finally:
                browser.end()
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
