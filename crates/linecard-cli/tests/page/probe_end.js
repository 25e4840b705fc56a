// Put at the end of a copy of a page: looks at what was drawn, drags and goes back, and leaves all it
// has found in the page.
addEventListener("load", () => {
  const found = { errors: probe.errors, plots: [], drawings: [], overlaps: [], clipped: [], wide: [] };
  // Half a pixel is no overlap.
  const meet = (a, b) =>
    Math.min(a.right, b.right) - Math.max(a.left, b.left) > 0.5 &&
    Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 0.5;
  const compare = (texts, frame) => {
    texts = texts.filter((text) => text.text.trim() !== "");
    texts.forEach((one, index) => {
      for (const other of texts.slice(index + 1)) {
        if (meet(one, other)) found.overlaps.push(one.text + " / " + other.text);
      }
      const inside = one.left >= frame.left - 1 && one.right <= frame.right + 1 &&
        one.top >= frame.top - 1 && one.bottom <= frame.bottom + 1;
      if (!inside) found.clipped.push(one.text);
    });
  };
  const coloured = (canvas) => {
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    let count = 0;
    for (let at = 3; at < data.length; at += 4) count += data[at] > 0;
    return count;
  };
  // Pixels of the first series' colour on paper.
  const inked = (canvas) => {
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    let count = 0;
    for (let at = 0; at < data.length; at += 4) {
      count += data[at] === 0x0b && data[at + 1] === 0x62 && data[at + 2] === 0xa8 && data[at + 3] === 255;
    }
    return count;
  };
  const drag = (over) => {
    const { left, top, width, height } = over.getBoundingClientRect();
    const send = (type, share) => {
      const init = { bubbles: true, cancelable: true, view: window, button: 0, detail: 1, movementX: 1,
        clientX: left + width * share, clientY: top + height / 2 };
      const target = type === "mouseup" ? document : over;
      target.dispatchEvent(new MouseEvent(type, init));
    };
    for (const [type, share] of [["mouseenter", 0.4], ["mousemove", 0.4], ["mousedown", 0.4], ["mousemove", 0.6], ["mouseup", 0.6]]) {
      send(type, share);
    }
  };
  const later = (then) => setTimeout(then, 50);
  for (const svg of document.querySelectorAll("svg")) {
    // That of the other window.
    if (getComputedStyle(svg).display === "none") continue;
    const texts = [...svg.querySelectorAll("text")].map((text) => {
      const { left, right, top, bottom } = text.getBoundingClientRect();
      // Line boxes are higher than letters.
      return { text: text.firstChild?.data ?? "", left, right, top: top + 2, bottom: bottom - 2 };
    });
    compare(texts, svg.getBoundingClientRect());
    const box = svg.getBoundingClientRect();
    found.drawings.push({ width: box.width, height: box.height, marks: svg.querySelectorAll("rect, circle").length });
  }
  for (const element of document.querySelectorAll("main *")) {
    if (element.closest(".wide, svg, .plot")) continue;
    if (element.getBoundingClientRect().right > innerWidth + 1) found.wide.push(element.outerHTML.slice(0, 80));
  }
  found.boxes = [...document.querySelectorAll(".full")].map((box) => {
    const { left, right } = box.getBoundingClientRect();
    return { left, right, content: box.scrollWidth };
  });
  found.scrolls = document.documentElement.scrollWidth > innerWidth;
  found.elements = document.querySelectorAll("b.evil, img, script[src]").length + Number(window.evil ?? 0);
  const plots = [...document.querySelectorAll(".plot")];
  const look = (index) => {
    if (index === plots.length) {
      found.resources = performance.getEntriesByType("resource").map((entry) => entry.name);
      const report = document.createElement("pre");
      report.id = "probe";
      report.textContent = JSON.stringify(found);
      document.body.append(report);
      return;
    }
    const canvas = plots[index].querySelector("canvas");
    if (!canvas) {
      found.plots.push({ empty: plots[index].textContent });
      look(index + 1);
      return;
    }
    compare(probe.texts.get(canvas) ?? [], { left: 0, top: 0, right: canvas.width, bottom: canvas.height });
    const plot = { coloured: coloured(canvas), texts: probe.texts.get(canvas).map((text) => text.text) };
    const whole = canvas.toDataURL();
    const over = plots[index].querySelector(".u-over");
    drag(over);
    later(() => {
      plot.zooms = canvas.toDataURL() !== whole;
      over.dispatchEvent(new MouseEvent("dblclick", { bubbles: true, cancelable: true, view: window }));
      later(() => {
        plot.goes_back = canvas.toDataURL() === whole;
        dispatchEvent(new Event("beforeprint"));
        later(() => {
          plot.printed = inked(canvas);
          dispatchEvent(new Event("afterprint"));
          later(() => {
            plot.is_as_before = canvas.toDataURL() === whole;
            found.plots.push(plot);
            look(index + 1);
          });
        });
      });
    });
  };
  later(() => look(0));
});
