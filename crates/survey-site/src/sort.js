
"use strict";
// Headings of tables become buttons that sort, and long tables get a field that filters.
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  if (body.rows.length < 2) continue;
  heads.forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    const isNumber = head.classList.contains("number");
    const valueOf = (row) => {
      const cell = row.cells[column];
      const order = cell.dataset.order;
      if (order !== undefined) return Number(order);
      return cell.textContent.trim().toLowerCase();
    };
    button.addEventListener("click", () => {
      const now = head.getAttribute("aria-sort");
      // The largest number first, the first letter first.
      const first = isNumber ? "descending" : "ascending";
      const other = isNumber ? "ascending" : "descending";
      const next = now === first ? other : first;
      for (const each of heads) each.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", next);
      const sign = next === "ascending" ? 1 : -1;
      const rows = [...body.rows].map((row) => ({ row, value: valueOf(row) }));
      rows.sort((a, b) => {
        if (a.value === b.value) return 0;
        // What was not measured is last in both directions.
        if (a.value === "") return 1;
        if (b.value === "") return -1;
        if (typeof a.value === "number" && typeof b.value === "number") {
          return sign * (a.value - b.value);
        }
        return sign * String(a.value).localeCompare(String(b.value), "en", { numeric: true });
      });
      body.append(...rows.map((each) => each.row));
    });
  });
  if (body.rows.length > 15) {
    const label = document.createElement("label");
    const field = document.createElement("input");
    const count = document.createElement("output");
    field.type = "search";
    label.className = "filter";
    label.append("Filter rows ", field, " ", count);
    field.addEventListener("input", () => {
      const wanted = field.value.trim().toLowerCase();
      let shown = 0;
      for (const row of body.rows) {
        row.hidden = !row.textContent.toLowerCase().includes(wanted);
        if (!row.hidden) shown += 1;
      }
      count.textContent = wanted ? shown + " of " + body.rows.length : "";
    });
    table.parentElement.before(label);
  }
}
