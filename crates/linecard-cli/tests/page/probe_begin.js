// Put at the head of a copy of a page: notes what goes wrong, and which texts canvases show.
window.probe = { errors: [], texts: new Map() };
addEventListener("error", (event) => probe.errors.push(String(event.message)));
addEventListener("unhandledrejection", (event) => probe.errors.push(String(event.reason)));
addEventListener("securitypolicyviolation", (event) =>
  probe.errors.push("refused by the policy: " + event.violatedDirective + " " + event.blockedURI));
for (const name of ["error", "warn"]) console[name] = (...words) => probe.errors.push(words.join(" "));
{
  const canvas = CanvasRenderingContext2D.prototype;
  const { clearRect, fillText } = canvas;
  canvas.clearRect = function (...area) {
    probe.texts.set(this.canvas, []);
    return clearRect.apply(this, area);
  };
  canvas.fillText = function (text, x, y) {
    const size = this.measureText(text);
    const [left, right, top, bottom] = [
      x - size.actualBoundingBoxLeft,
      x + size.actualBoundingBoxRight,
      y - size.actualBoundingBoxAscent,
      y + size.actualBoundingBoxDescent,
    ];
    const corners = [[left, top], [right, bottom]].map(([x, y]) => this.getTransform().transformPoint({ x, y }));
    const [a, b] = corners;
    probe.texts.get(this.canvas)?.push({
      text: String(text),
      left: Math.min(a.x, b.x), right: Math.max(a.x, b.x),
      top: Math.min(a.y, b.y), bottom: Math.max(a.y, b.y),
    });
    return fillText.call(this, text, x, y);
  };
}
