// Sorts the tables of the page that scripts/compare.py writes; all else works without it.
"use strict";
function value(row, column) {
  const text = row.cells[column].textContent.trim();
  const number = parseFloat(text.replace(/\u2212/g, "-").replace(/,(?=\d{3})/g, ""));
  return { text, number: /^[-+\u2212\d.]/.test(text) ? number : NaN };
}
function sort(heading) {
  const table = heading.closest("table"), body = table.tBodies[0], column = heading.cellIndex;
  const down = heading.getAttribute("aria-sort") === "ascending" ? -1 : 1;
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  heading.setAttribute("aria-sort", down === 1 ? "ascending" : "descending");
  const rows = Array.from(body.rows);
  rows.sort((a, b) => {
    const x = value(a, column), y = value(b, column);
    if (isNaN(x.number) !== isNaN(y.number)) return isNaN(x.number) ? 1 : -1;  // words after numbers, either way
    return down * (isNaN(x.number) ? x.text.localeCompare(y.text) : x.number - y.number);
  });
  body.append(...rows);
}
for (const heading of document.querySelectorAll("table.sortable thead th")) {
  const button = document.createElement("button");
  button.type = "button";
  button.append(...heading.childNodes);
  button.addEventListener("click", () => sort(heading));
  heading.append(button);
}
