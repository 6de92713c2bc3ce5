
// ---- links to rows, and views ----------------------------------------------------------------------------------------

/** Shows what the address names behind `#`: a section, a row of it (`#upstreams/GROUP/SERVER`), or the view of routes, with
 * what is searched for (`#routes/TEXT`). */
function showTarget() {
    const [id, subject, part] = location.hash.slice(1).split("/").map((word) => {
        try { return decodeURIComponent(word); } catch { return ""; } // No link of this page has such a word.
    });
    const view = id === "routes" ? "routes" : "figures";
    document.getElementById("main").dataset.view = view;
    for (const link of document.querySelectorAll("#nav a")) {
        const here = view === "routes" && link.hash === "#routes";
        if (here) link.setAttribute("aria-current", "page"); else link.removeAttribute("aria-current");
    }
    for (const list of rowLinks.values()) for (const { table } of list) if (table.marked) table.mark(null);
    if (view === "routes") {
        if (subject !== undefined && routes.filter.value !== subject) routes.search(subject);
        routes.filter.focus({ preventScroll: true });
        scrollTo({ top: 0, behavior: "instant" });
        return;
    }
    const marks = ({ table, fits }) => table.mark((row) => fits(row, subject, part || ""));
    const found = subject !== undefined && (rowLinks.get(id) || []).find(marks);
    if (!found && id) document.getElementById(id)?.scrollIntoView();
}
window.addEventListener("hashchange", showTarget);

// What is searched for becomes a part of the address, so that the result can be shared.
routes.filter.addEventListener("input", () => {
    const text = routes.filter.value.trim();
    history.replaceState(null, "", "#routes" + (text ? "/" + encodeURIComponent(text) : ""));
});

// `/` goes to the search, arrows go from row to row, Escape goes back to the search.
document.addEventListener("keydown", (event) => {
    const at = document.activeElement, row = at?.closest("tbody tr");
    if (event.ctrlKey || event.altKey || event.metaKey || document.querySelector("dialog[open]")) return;
    if (event.key === "/" && !at?.matches("input, select")) {
        const seen = [...document.querySelectorAll("input[type=search]")].find((one) => one.getClientRects().length > 0);
        if (!seen) return;
        event.preventDefault();
        seen.focus();
        return;
    }
    const table = tables.find((one) => one.element.contains(at));
    if (!table || at.matches("button")) return;
    if (event.key === "Escape" && row) {
        table.filter.focus();
    } else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
        const down = event.key === "ArrowDown", next = row ? down ? row.nextElementSibling : row.previousElementSibling
            : down ? table.body.firstElementChild : null;
        if (!next && !row) return;
        event.preventDefault();
        if (next) next.focus(); else if (!down) table.filter.focus();
    }
});
