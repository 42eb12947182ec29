// Shows /report.html in a frame of each width and sends what is there to /seen.
async function look(width) {
  const frame = document.createElement("iframe");
  frame.style.cssText = `border:0;width:${width}px;height:800px`;
  const errors = [];
  const loaded = new Promise((done) => { frame.onload = done; });
  frame.src = "/report.html";
  document.body.append(frame);
  frame.contentWindow.addEventListener("error", (event) => errors.push(String(event.message)));
  await loaded;
  const view = frame.contentWindow, page = frame.contentDocument;
  page.addEventListener("securitypolicyviolation", (event) => errors.push("refused: " + event.blockedURI));
  page.querySelectorAll("details").forEach((details) => { details.open = true; });
  await new Promise((done) => setTimeout(done, 200));
  const figures = [...page.querySelectorAll("figure")].map((figure) => {
    const drawing = figure.querySelector("svg"), problems = [];
    const frame = (drawing || figure).getBoundingClientRect();
    if (frame.width < 200 || frame.height < 20) problems.push(`is ${frame.width} by ${frame.height}`);
    if (drawing) {
      const marks = [...drawing.querySelectorAll("rect, circle")];
      if (marks.length === 0) problems.push("has no marks");
      for (const mark of marks) {
        const box = mark.getBoundingClientRect();
        if (box.width === 0 || box.height === 0) problems.push("has an empty mark");
        const style = view.getComputedStyle(mark);
        if (style.fill === "none" && style.stroke === "none") problems.push("has a mark without colour");
      }
      const texts = [...drawing.querySelectorAll("text")];
      const boxes = texts.map((text) => text.getBoundingClientRect());
      boxes.forEach((box, index) => {
        const text = texts[index].textContent;
        if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.bottom > frame.bottom + 2)
          problems.push(`cuts off ${text}`);
        if (parseFloat(view.getComputedStyle(texts[index]).fontSize) * frame.width / 360 < 8) problems.push(`has tiny ${text}`);
        boxes.slice(0, index).forEach((other, before) => {
          if (Math.min(box.right, other.right) - Math.max(box.left, other.left) > 1 &&
              Math.min(box.bottom, other.bottom) - Math.max(box.top, other.top) > 3)
            problems.push(`${text} lies on ${texts[before].textContent}`);
        });
      });
    } else if (figure.querySelectorAll("td[data-figure]").length === 0) problems.push("has no numbers");
    return { id: figure.id, drawn: !!drawing, problems: [...new Set(problems)] };
  });
  const wide = [...page.body.querySelectorAll("*")].filter((element) =>
    !element.closest("svg, .scroll > *, caption") && element.getBoundingClientRect().right > width + 1);
  const result = { width, errors, figures, scroll: page.documentElement.scrollWidth,
    wide: wide.slice(0, 5).map((element) => element.outerHTML.slice(0, 120)) };
  frame.remove();
  return result;
}
(async () => {
  const seen = [];
  for (const width of widths) seen.push(await look(width));
  await fetch("/seen", { method: "POST", body: JSON.stringify(seen) });
})().catch((error) => fetch("/seen", { method: "POST", body: JSON.stringify([{ errors: [String(error)] }]) }));
