"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const tip = document.getElementById("tip");
  const [picture, words] = [tip.querySelector(".thumb"), tip.querySelector("p")];
  const SIDE = 48;

  function show(owner, number, x, y) {
    const example = data[owner][number];
    const sample = document.querySelector(`.thumb.s${owner}`);
    picture.hidden = !sample;
    if (sample) {
      const columns = Math.round(parseFloat(getComputedStyle(sample).backgroundSize) / SIDE);
      picture.className = `thumb s${owner}`;
      picture.style.backgroundPosition =
        `-${(number % columns) * SIDE}px -${Math.floor(number / columns) * SIDE}px`;
    }
    const lines = [`example ${example.id}, cluster ${example.cluster}`];
    if (example.name !== undefined) lines.push(example.name);
    if (example.predicted !== undefined)
      lines.push(`predicted ${example.predicted} (${(100 * example.confidence).toFixed(1)} %)`);
    words.textContent = lines.join("\n");
    tip.hidden = false;
    const box = tip.getBoundingClientRect();
    tip.style.left = `${Math.max(4, Math.min(x + 12, innerWidth - box.width - 4))}px`;
    tip.style.top = `${Math.max(4, y + 12 + box.height > innerHeight ? y - box.height - 12 : y + 12)}px`;
  }

  function hide() {
    tip.hidden = true;
    for (const dot of document.querySelectorAll(".dot.on")) dot.classList.remove("on");
  }

  function mark(dot, owner) {
    hide();
    dot.classList.add("on");
    const box = dot.getBoundingClientRect();
    show(owner, +dot.dataset.n, box.x + box.width / 2, box.y + box.height / 2);
  }

  for (const chart of document.querySelectorAll(".scatter")) {
    const owner = chart.closest("article").id.replace("class-", "");
    const dots = [...chart.querySelectorAll(".dot")];
    const order = [...dots].sort((a, b) => a.cx.baseVal.value - b.cx.baseVal.value);
    let at = -1;
    chart.addEventListener("pointermove", (event) => {
      if (event.target.classList.contains("dot")) mark(event.target, owner);
    });
    chart.addEventListener("pointerleave", hide);
    chart.addEventListener("blur", hide);
    chart.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
      if (event.key === "Escape") hide();
      if (!step) return;
      event.preventDefault();
      at = (at + step + order.length) % order.length;
      mark(order[at], owner);
    });
  }

  for (const thumb of document.querySelectorAll(".gallery .thumb")) {
    thumb.addEventListener("pointerenter", (event) =>
      show(thumb.dataset.class, +thumb.dataset.n, event.clientX, event.clientY));
    thumb.addEventListener("pointerleave", hide);
  }

  for (const table of document.querySelectorAll("table.sortable")) {
    const body = table.tBodies[0];
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const up = head.getAttribute("aria-sort") !== "descending" && head.hasAttribute("aria-sort");
        const sign = up ? -1 : 1;
        for (const cell of table.tHead.rows[0].cells) cell.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", up ? "descending" : "ascending");
        const value = (row) => row.cells[column].textContent.trim();
        const numeric = head.classList.contains("number");
        const number = (text) => (text === "–" ? -Infinity : parseFloat(text.replaceAll(",", "")));
        const rows = [...body.rows].sort((a, b) => sign * (numeric
          ? number(value(a)) - number(value(b))
          : value(a).localeCompare(value(b))));
        body.append(...rows);
      });
    });
  }
})();
