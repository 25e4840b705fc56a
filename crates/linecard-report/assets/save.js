// Saves a chart of curves as it is seen: SVG with the page's style, or PNG at twice its size.
(() => {
  "use strict";
  const style = document.querySelector("style").textContent;
  const download = (name, url) => {
    const link = document.createElement("a");
    link.download = name;
    link.href = url;
    link.click();
  };
  const source = (svg) => {
    const copy = svg.cloneNode(true);
    const [, , width, height] = svg.getAttribute("viewBox").split(" ");
    copy.setAttribute("width", width);
    copy.setAttribute("height", height);
    copy.prepend(document.createElementNS("http://www.w3.org/2000/svg", "style"));
    copy.firstChild.textContent = style;
    return "data:image/svg+xml;charset=utf-8," + encodeURIComponent(new XMLSerializer().serializeToString(copy));
  };
  const png = (svg, then) => {
    const image = new Image();
    const [, , width, height] = svg.getAttribute("viewBox").split(" ").map(Number);
    image.onload = () => {
      const canvas = document.createElement("canvas");
      canvas.width = 2 * width;
      canvas.height = 2 * height;
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      then(canvas.toDataURL("image/png"));
    };
    image.src = source(svg);
  };
  for (const row of document.querySelectorAll(".save")) {
    const figure = row.closest("figure");
    const svg = figure.querySelector("svg");
    row.hidden = false;
    row.addEventListener("click", (event) => {
      const kind = event.target.dataset.save;
      if (kind === "svg") download(figure.dataset.key + ".svg", source(svg));
      if (kind === "png") png(svg, (url) => download(figure.dataset.key + ".png", url));
    });
  }
})();
