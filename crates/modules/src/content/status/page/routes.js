// ---- routes ----------------------------------------------------------------------------------------------------------
const routes = (() => {
    const marks = { server: "", exact: "= ", final: "^~ ", regex: "~ ", prefix: "", variable: "", named: "" };
    const table = new Table("Servers and locations", (row) => row.key, [
        word("Server", (row) => row.server || row.listens || "(without a name)"),
        word("Location", (row) => row.kind === "server" ? "(the server itself)" : marks[row.kind] + row.path),
        word("What it does", (row) => row.directives.join("; ")),
        word("Line", (row) => row.place), word("Address", (row) => row.listens),
    ], { column: 3, down: false });
    table.searched = true;
    table.filter.placeholder = "Server, path, directive or file";
    const more = make("p", { class: "none" });
    const part = section("routes", "Routes", make("p", { class: "none" }, "The servers and locations of the configuration, with what "
        + "each does. Press / to search, and arrows to go from row to row."), table.element, more);
    let shown = -1, asking = false;
    parts.push(async (now) => {
        if (shown === now.generation || asking) return;
        asking = true;
        try {
            const { routes, left_out: left } = JSON.parse(await fetchState("?routes=on"));
            table.show(routes.map((row, i) => ({ ...row, key: i })));
            more.hidden = left === 0;
            put(more, `${left} more are left out.`);
            part.hidden = false;
            shown = now.generation;
        } catch { /* It is tried again with the next answer. */ }
        asking = false;
    });
    return table;
})();

