"use strict";
// The page asks for the same address as JSON again and again, and shows what it says and how that changed. Everything
// is put in as text, never as HTML: names come from configurations and clients.

// ---- numbers ---------------------------------------------------------------------------------------------------------

const API = document.documentElement.dataset.api; // the path of an API with write=on, if there is one
const HISTORY = 90; // samples that a line shows
const PAGE = 50; // rows of a table that are in the document at a time
const LARGE = 400000; // an answer of more bytes than this is asked for every 5 s at most

const short = (n) => {
    if (!isFinite(n)) return "–";
    const size = Math.abs(n);
    if (size >= 1e12) return (n / 1e12).toFixed(2) + " T";
    if (size >= 1e9) return (n / 1e9).toFixed(2) + " G";
    if (size >= 1e6) return (n / 1e6).toFixed(2) + " M";
    if (size >= 1e4) return (n / 1e3).toFixed(1) + " k";
    if (size >= 100 || Number.isInteger(n)) return Math.round(n).toString();
    return n.toFixed(size >= 10 ? 1 : 2);
};
const bytes = (n) => {
    const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
    let i = 0;
    while (Math.abs(n) >= 1024 && i < units.length - 1) { n /= 1024; i++; }
    return (i === 0 || n >= 100 ? Math.round(n) : n.toFixed(1)) + " " + units[i];
};
const micros = (us) => us >= 1e6 ? (us / 1e6).toFixed(2) + " s" : us >= 1e3 ? (us / 1e3).toFixed(1) + " ms"
    : Math.round(us) + " µs";
const percent = (ratio) => isFinite(ratio) ? (100 * ratio).toFixed(1) + " %" : "–";
const seconds = (s) => {
    s = Math.floor(s);
    if (s < 60) return s + " s";
    if (s < 3600) return Math.floor(s / 60) + " min";
    if (s < 86400) return Math.floor(s / 3600) + " h " + Math.floor(s % 3600 / 60) + " min";
    return Math.floor(s / 86400) + " d " + Math.floor(s % 86400 / 3600) + " h";
};
const rate = (text) => (n) => text(n) + "/s";
const sum = (object) => Object.values(object || {}).reduce((all, n) => all + n, 0);
const total = (list, of) => list.reduce((all, one) => all + of(one), 0);

/** The part of a histogram that came since an earlier one of the same bounds. */
function since(now, before) {
    if (!before || before.count > now.count) return now;
    return { bounds_us: now.bounds_us, counts: now.counts.map((n, i) => n - before.counts[i]),
        count: now.count - before.count, sum_us: now.sum_us - before.sum_us, max_us: now.max_us };
}
/** The bound below which a share of a histogram lies, in microseconds; NaN if it is empty. */
function quantile(histogram, share) {
    let left = histogram.count * share;
    if (histogram.count === 0) return NaN;
    for (let i = 0; i < histogram.counts.length; i++) {
        left -= histogram.counts[i];
        if (left <= 0) return Math.min(histogram.bounds_us[i] ?? histogram.max_us, histogram.max_us);
    }
    return histogram.max_us;
}
const us = (n) => isFinite(n) ? micros(n) : "–";
const byKey = (list, key) => new Map((list || []).map((one) => [key(one), one]));
const count = (n) => short(n);
/** A time in seconds since 1970 as people say it: the hour, and the day if that is another one. */
function clock(time) {
    const at = new Date(time * 1000), hour = at.toTimeString().slice(0, 8);
    return at.toDateString() === new Date().toDateString() ? hour : `${at.toISOString().slice(0, 10)} ${hour}`;
}

// ---- elements --------------------------------------------------------------------------------------------------------

function make(tag, attributes, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
        if (name === "class") element.className = value; else element.setAttribute(name, value);
    }
    element.append(...children);
    return element;
}
function put(element, text) {
    if (element.textContent !== text) element.textContent = text;
}
const SVG = "http://www.w3.org/2000/svg";

/** A line of the last values, with its least and greatest for those who cannot see it. */
class Line {
    constructor(title, length = HISTORY) {
        this.title = title;
        this.length = length;
        this.svg = document.createElementNS(SVG, "svg");
        this.svg.setAttribute("viewBox", `0 0 ${length - 1} 30`);
        this.svg.setAttribute("preserveAspectRatio", "none");
        this.svg.setAttribute("role", "img");
        this.line = document.createElementNS(SVG, "polyline");
        this.svg.append(this.line);
    }
    draw(values, text) {
        const known = values.filter(isFinite);
        const most = Math.max(...known, 0) || 1;
        const first = this.length - values.length;
        const points = [];
        values.forEach((value, i) => {
            if (isFinite(value)) points.push(`${first + i},${(28.5 - 27 * value / most).toFixed(1)}`);
        });
        this.line.setAttribute("points", points.join(" "));
        const label = known.length === 0 ? `${this.title}: no values yet`
            : `${this.title}, the last ${known.length} values: from ${text(Math.min(...known))} to ${text(most)}`;
        if (this.svg.getAttribute("aria-label") !== label) this.svg.setAttribute("aria-label", label);
    }
}

/** The last values of many figures, by key. What is not asked for in a turn is forgotten after the next. */
class Histories {
    constructor() { this.known = new Map(); this.turn = 0; }
    add(key, value) {
        let one = this.known.get(key);
        if (!one) this.known.set(key, one = { values: [], turn: 0 });
        if (one.turn !== this.turn) {
            one.values.push(value);
            if (one.values.length > HISTORY) one.values.shift();
            one.turn = this.turn;
        }
        return one.values;
    }
    next() {
        for (const [key, one] of this.known) if (one.turn < this.turn - 1) this.known.delete(key);
        this.turn++;
    }
}
const histories = new Histories();

/** A figure with its name, unit and history. */
class Card {
    constructor(key, name, text) {
        this.key = key;
        this.text = text;
        this.value = make("div", { class: "value" });
        this.line = new Line(name);
        this.element = make("div", { class: "card" }, make("div", { class: "name" }, name), this.value, this.line.svg);
    }
    show(value, grade) {
        put(this.value, this.text(value));
        this.value.className = "value " + (grade || "");
        this.line.draw(histories.add("card " + this.key, value), this.text);
    }
}

const tables = [];
/** A table that sorts, filters and shows a page of its rows. A column is { name, of, text?, note? }: `of` gives its value
 * for a row, `text` writes it, `grade` its class, `line` draws its history. Without `text` it is a word, to the left. */
class Table {
    constructor(title, key, columns, sorted) {
        this.title = title;
        this.key = key;
        this.columns = columns;
        this.sorted = sorted || { column: 0, down: false };
        this.page = 0;
        this.rows = [];
        this.shown = new Map();
        this.marked = null;
        this.filter = make("input", { type: "search", placeholder: "Filter", "aria-label": "Filter " + title });
        this.filter.addEventListener("input", () => { this.page = 0; this.draw(); });
        this.count = make("span", {});
        this.back = make("button", { type: "button", "aria-label": "Earlier rows of " + title }, "‹");
        this.on = make("button", { type: "button", "aria-label": "Further rows of " + title }, "›");
        this.back.addEventListener("click", () => { this.page--; this.draw(); });
        this.on.addEventListener("click", () => { this.page++; this.draw(); });
        this.heads = columns.map((column, i) => {
            if (column.act) return make("th", { scope: "col" }, column.name);
            const button = make("button", { type: "button" }, column.name);
            if (column.note) button.title = column.note;
            button.addEventListener("click", () => {
                const down = this.sorted.column === i ? !this.sorted.down : Boolean(column.text);
                this.sorted = { column: i, down };
                this.draw();
            });
            return make("th", { scope: "col", class: column.text ? "" : "text" }, button);
        });
        this.body = make("tbody");
        const table = make("table", {}, make("caption", { class: "hidden" }, title),
            make("thead", {}, make("tr", {}, ...this.heads)), this.body);
        this.tools = make("div", { class: "tools" }, this.filter, this.count, this.back, this.on);
        this.scroll = make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": title }, table);
        this.none = make("p", { class: "none" }, "There are none.");
        this.element = make("div", {}, this.tools, this.scroll, this.none);
        tables.push(this);
    }
    /** Shows the rows that have each of these words. */
    search(text) {
        this.filter.value = text;
        this.page = 0;
        this.draw();
    }
    /** Marks the rows that a link means, and goes to the first; says whether there is one. */
    mark(fits) {
        this.marked = fits;
        if (!fits || !this.rows.some(fits)) {
            this.marked = null;
            this.draw();
            return false;
        }
        this.filter.value = "";
        const at = this.sort(this.rows).findIndex(fits);
        this.page = Math.floor(at / PAGE);
        this.draw();
        const row = this.body.children[at % PAGE];
        row.focus({ preventScroll: true });
        row.scrollIntoView({ block: "center", inline: "nearest" });
        return true;
    }
    /** The rows in the order that was chosen. */
    sort(rows) {
        const by = this.columns[this.sorted.column], sign = this.sorted.down ? -1 : 1;
        const order = (row) => by.order ? by.order(row) : by.of(row);
        return rows.map((row) => [order(row), row]).sort(([a], [b]) => {
            if (typeof a === "number" && typeof b === "number") {
                return sign * ((isFinite(a) ? a : -1) - (isFinite(b) ? b : -1));
            }
            return sign * String(a).localeCompare(String(b), "en", { numeric: true });
        }).map(([, row]) => row);
    }
    show(rows) {
        this.rows = rows;
        for (const row of rows) {
            for (const column of this.columns) {
                if (column.line) histories.add(this.title + " " + this.key(row) + " " + column.name, column.of(row));
            }
        }
        this.draw();
    }
    draw() {
        const wanted = this.filter.value.trim().toLowerCase(), sought = wanted.split(/\s+/);
        const words = this.columns.filter((column) => !column.text);
        let rows = this.rows;
        if (wanted) {
            rows = rows.filter((row) => sought.every((word) =>
                words.some((column) => String(column.of(row)).toLowerCase().includes(word))));
        }
        rows = this.sort(rows);
        const pages = Math.max(1, Math.ceil(rows.length / PAGE));
        this.page = Math.min(Math.max(0, this.page), pages - 1);
        const first = this.page * PAGE, part = rows.slice(first, first + PAGE);
        put(this.count, rows.length === 0 ? "no rows" : rows.length <= PAGE && !wanted ? `${rows.length} rows`
            : `${first + 1}–${first + part.length} of ${rows.length}`);
        this.back.disabled = this.page === 0;
        this.on.disabled = this.page >= pages - 1;
        const paged = pages > 1;
        this.back.hidden = this.on.hidden = !paged;
        this.tools.hidden = this.rows.length < 6 && !wanted && !this.searched;
        this.scroll.hidden = this.rows.length === 0;
        this.none.hidden = this.rows.length !== 0;
        this.heads.forEach((head, i) => head.setAttribute("aria-sort", i !== this.sorted.column ? "none"
            : this.sorted.down ? "descending" : "ascending"));
        const kept = new Map();
        let place = this.body.firstElementChild;
        for (const row of part) {
            const key = this.key(row);
            if (kept.has(key)) continue;
            const shown = this.shown.get(key) || this.row();
            kept.set(key, shown);
            this.fill(shown, row, key);
            if (shown.element === place) place = place.nextElementSibling; else this.body.insertBefore(shown.element, place);
        }
        for (const [key, shown] of this.shown) if (!kept.has(key)) shown.element.remove();
        this.shown = kept;
    }
    row() {
        const lines = [];
        const cells = this.columns.map((column) => {
            const cell = make("td", { class: column.text ? "" : "text" });
            const text = make(column.act ? "button" : "span", column.act ? { type: "button" } : {});
            cell.append(text);
            if (column.act) text.addEventListener("click", () => column.act(shown.row));
            if (column.line || column.drawn) {
                const line = column.drawn ? new column.drawn(column.name) : new Line(column.name);
                cell.append(line.svg);
                lines.push(line);
            } else {
                lines.push(null);
            }
            return { cell, text };
        });
        const shown = { element: make("tr", { tabindex: "-1" }, ...cells.map(({ cell }) => cell)), cells, lines };
        return shown;
    }
    fill(shown, row, key) {
        shown.row = row;
        shown.element.classList.toggle("marked", Boolean(this.marked?.(row)));
        this.columns.forEach((column, i) => {
            const value = column.of(row), { cell, text } = shown.cells[i];
            put(text, column.text ? column.text(value) : String(value ?? ""));
            if (!column.text && cell.title !== text.textContent) cell.title = text.textContent;
            const grade = (column.text ? "" : "text ") + (column.grade ? column.grade(row) : "");
            if (cell.className !== grade) cell.className = grade;
            if (column.drawn) {
                shown.lines[i].show(value);
            } else if (column.line) {
                shown.lines[i].draw(histories.known.get(this.title + " " + key + " " + column.name)?.values || [], column.text);
            }
        });
    }
}

/** Bars of a histogram. */
function bars(svg, histogram) {
    const used = histogram.counts.length, most = Math.max(...histogram.counts, 1);
    svg.setAttribute("viewBox", `0 0 ${used * 4} 30`);
    svg.setAttribute("preserveAspectRatio", "none");
    while (svg.children.length < used) svg.append(document.createElementNS(SVG, "rect"));
    histogram.counts.forEach((count, i) => {
        // By the logarithm: one late turn among a million must be seen.
        const height = count === 0 ? 0 : Math.max(1.5, 29 * Math.log1p(count) / Math.log1p(most));
        const bar = svg.children[i];
        bar.setAttribute("x", i * 4);
        bar.setAttribute("y", 30 - height);
        bar.setAttribute("width", 3);
        bar.setAttribute("height", height);
    });
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", `half in less than ${us(quantile(histogram, .5))}, 99.9 % in less than `
        + `${us(quantile(histogram, .999))}, the longest ${us(histogram.max_us)}`);
}

// ---- the last fifteen minutes, which the server keeps ---------------------------------------------------------------

const PAST = 180; // values that the server keeps
const PAST_INTERVAL = 5000; // milliseconds between two questions for them
let pastAt = -PAST_INTERVAL;
const past = { servers: new Map(), zones: new Map() };
const pasts = []; // functions that show them

const sums = (lists) => lists.reduce((all, list) => {
    const shift = all.length - list.length; // lists end together
    const long = shift >= 0 ? all.slice() : list.slice(), other = shift >= 0 ? list : all;
    other.forEach((value, i) => { long[i + Math.abs(shift)] += value; });
    return long;
}, []);
const most = (lists) => lists.reduce((all, list) => {
    const long = (all.length >= list.length ? all : list).slice(), other = all.length >= list.length ? list : all;
    other.forEach((value, i) => { const at = i + long.length - other.length; long[at] = Math.max(long[at], value); });
    return long;
}, []);
const rates = (all, list) => list.map((n) => n / all.interval_seconds);
const some = (list) => list.map((n) => n > 0 ? n : NaN);
const shares = (parts, wholes) => wholes.map((whole, i) => whole > 0 ? parts[i] / whole : NaN);

/** A figure of the last fifteen minutes: the greatest value, and how it changed. */
class PastCard {
    constructor(name, of, text, bad) {
        this.of = of;
        this.text = text;
        this.bad = bad;
        this.value = make("div", { class: "value" });
        this.line = new Line(name, PAST);
        this.element = make("div", { class: "card" }, make("div", { class: "name" }, name), this.value, this.line.svg);
    }
    show(all) {
        const values = this.of(all), known = values.filter(isFinite);
        const top = known.length ? Math.max(...known) : NaN, last = known.length ? known[known.length - 1] : NaN;
        put(this.value, isFinite(top) ? `${this.text(last)}, at most ${this.text(top)}` : "–");
        this.value.className = "value small " + (this.bad && top > 0 ? last > 0 ? "bad" : "warn" : "");
        this.line.draw(values, this.text);
        this.element.hidden = values.length === 0;
    }
}
/** The states of a server in the last fifteen minutes, as a strip of colours. */
class Strip {
    constructor(title) {
        this.title = title;
        this.svg = document.createElementNS(SVG, "svg");
        this.svg.setAttribute("viewBox", `0 0 ${PAST} 8`);
        this.svg.setAttribute("preserveAspectRatio", "none");
        this.svg.setAttribute("role", "img");
    }
    show(list) {
        if (this.list === list) return;
        this.list = list;
        const runs = [];
        list.forEach((state, i) => {
            const last = runs[runs.length - 1];
            if (last && last.state === state) last.length++; else runs.push({ state, at: i, length: 1 });
        });
        while (this.svg.children.length > runs.length) this.svg.lastElementChild.remove();
        while (this.svg.children.length < runs.length) this.svg.append(document.createElementNS(SVG, "rect"));
        runs.forEach((run, i) => {
            const bar = this.svg.children[i];
            bar.setAttribute("x", PAST - list.length + run.at);
            bar.setAttribute("y", 0);
            bar.setAttribute("width", run.length);
            bar.setAttribute("height", 8);
            bar.setAttribute("class", "state-" + run.state);
        });
        this.svg.setAttribute("aria-label", runs.length ? `${this.title}: ` + runs.map((run) =>
            `${run.state} for ${seconds(run.length * past.interval)}`).join(", ") : `${this.title}: nothing yet`);
    }
}
/** The errors of a server in the last fifteen minutes. */
class Errors {
    constructor(title) { this.line = new Line(title, PAST); this.svg = this.line.svg; }
    show(list) { this.line.draw(list, count); }
}
function showPast(all) {
    past.interval = all.interval_seconds;
    past.servers = byKey(all.upstreams, (one) => `${one.protocol} ${one.group} ${one.address} ${one.nth}`);
    past.zones = byKey([...all.server_zones, ...all.stream_zones], (one) => one.name);
    for (const show of pasts) show(all);
}

// ---- sections --------------------------------------------------------------------------------------------------------

/** What changed in a second, of a counter that both answers have. */
const change = (now, before, time) => before === undefined || now < before || !(time > 0) ? NaN : (now - before) / time;

// Names of sections in the navigation that are shorter than their titles.
const SHORT = { history: "15 minutes", loops: "Loops", pools: "Pools and mounts", upstreams: "Upstreams",
    streams: "HTTP/2, stream" };
function section(id, title, ...children) {
    const element = make("section", { id, "aria-labelledby": id + "-title" },
        make("h2", { id: id + "-title" }, title), ...children);
    document.getElementById("main").append(element);
    document.getElementById("nav").append(make("a", { href: "#" + id }, SHORT[id] || title, make("span", { class: "badge" })));
    return element;
}
const cards = (...list) => make("div", { class: "cards" }, ...list.map((card) => card.element));
const word = (name, of, more) => ({ name, of, ...more });
const figure = (name, of, text, more) => ({ name, of, text, ...more });
const action = (name, label, act) => API === undefined ? [] : [{ name, of: () => "", text: () => label, act }];
const drawn = (name, of, drawing) => ({ name, of: (row) => of(row) || [], text: () => "", drawn: drawing });

// Each part is { show(now, before, time) }, where `time` is in seconds between the two answers.
const parts = [];
// The tables of the sections that problems name, and which of their rows a problem's subject and part mean.
const rowLinks = new Map();
const linkRows = (section, table, fits) => rowLinks.set(section, [...(rowLinks.get(section) || []), { table, fits }]);

{
    const calm = make("p", { class: "good" }, "Waiting for the first answer…");
    const list = make("ul", { id: "problem-list" }), over = make("ul", { id: "past-list" });
    const ended = make("div", {}, make("h3", {}, "Over in the last 15 minutes"), over);
    section("problems", "Problems", calm, list, ended);
    const fill = (list, problems, when, log) => {
        while (list.children.length > problems.length) list.lastElementChild.remove();
        while (list.children.length < problems.length) {
            list.append(make("li", {}, make("a", {}), make("span"), make("small"),
                make("div", { class: "origin" }, make("code"), make("code"))));
        }
        problems.forEach((problem, i) => {
            const [name, said, time, origin] = list.children[i].children, [place, line] = origin.children;
            const words = problem.subject ? [problem.section, problem.subject, ...(problem.part ? [problem.part] : [])]
                : [problem.section];
            const href = "#" + words.map(encodeURIComponent).join("/");
            if (name.getAttribute("href") !== href) name.setAttribute("href", href);
            put(name, problem.subject || "…");
            put(said, ": " + problem.text);
            put(time, " " + when(problem));
            put(place, problem.place || "");
            put(line, problem.log_line || (log ? "error log: " + log : ""));
        });
    };
    /** Counts the problems of each section in the navigation. */
    const count = (problems) => {
        for (const link of document.querySelectorAll("#nav a")) {
            const id = link.hash.slice(1), badge = link.lastElementChild;
            const own = id === "problems" ? problems.length : problems.filter((one) => one.section === id).length;
            put(badge, own ? String(own) : "");
            badge.title = own ? `${own} problem${own > 1 ? "s" : ""}` : "";
            link.className = own ? "bad" : "";
        }
    };
    parts.push((now) => {
        const found = now.problems;
        put(calm, "There are none.");
        calm.hidden = found.length > 0;
        fill(list, found, (problem) => "since " + clock(problem.since), now.error_log);
        ended.hidden = now.past_problems.length === 0;
        fill(over, now.past_problems, (problem) => `from ${clock(problem.since)} to ${clock(problem.ended)}`, "");
        count(found);
        const title = (found.length ? `(${found.length}) ` : "") + "freerun: status";
        if (document.title !== title) document.title = title;
    });
}
{
    const list = [
        new PastCard("Requests", (all) => rates(all, all.worker.requests), rate(short)),
        new PastCard("5xx", (all) => rates(all, all.worker.errors), rate(short), true),
        new PastCard("99 % of requests below", (all) => some(all.worker.p99_us), us),
        new PastCard("Connections", (all) => all.worker.connections, count),
        new PastCard("Longest turn of a loop below", (all) => most(all.loops.map((one) => one.longest_us)), us),
        new PastCard("Servers that take no requests", (all) => sums(all.upstreams.map((one) =>
            one.state.map((state) => state === "unavail" || state === "unhealthy" ? 1 : 0))), count, true),
        new PastCard("Hits of caches", (all) => shares(sums(all.caches.map((one) => one.hits)),
            sums(all.caches.map((one) => one.answers))), percent),
    ];
    section("history", "The last 15 minutes", cards(...list));
    pasts.push((all) => list.forEach((card) => card.show(all)));
}
{
    const longest = new Card("longest", "Longest turn of a loop's own", us);
    const stalls = new Card("stalls", "Stalls (turns over 10 ms)", count);
    const without = new Card("without", "Of these, without a processor", count);
    const p999 = new Card("p999", "99.9 % of turns now below", us);
    const histograms = make("div", { class: "cards" });
    const drawn = [];
    const table = new Table("Loops", (row) => row.index, [
        figure("Loop", (row) => row.index, count),
        figure("Requests", (row) => row.rate, rate(short), { line: true }),
        figure("Connections", (row) => row.connections.active, count),
        figure("Idle", (row) => row.connections.idle, count),
        figure("Accepted", (row) => row.accepting, rate(short)),
        figure("Rescued", (row) => row.connections.rescued, count,
            { note: "Connections that others accepted, because the loop was late, drained or full, or took over because it was late" }),
        figure("Moved", (row) => row.connections.moved, count,
            { note: "Connections that went to other loops between two requests" }),
        figure("Stalls", (row) => row.stalls, count, { grade: (row) => row.stalls > 0 ? "warn" : "" }),
        figure("Longest of its own", (row) => row.longest_stall_of_its_own_us, us),
        figure("Half of turns below", (row) => quantile(row.recent, .5), us),
        figure("99.9 % below", (row) => quantile(row.recent, .999), us),
    ]);
    linkRows("loops", table, (row, subject) => "loop " + row.index === subject);
    section("loops", "Is the promise kept? Event loops", cards(longest, stalls, without, p999),
        make("h3", {}, "Turns of each loop by their length, since the start"), histograms, table.element);
    parts.push((now, before, time) => {
        const rows = now.loops.map((one, i) => {
            const old = before?.loops[i];
            return { ...one, rate: change(one.requests, old?.requests, time), recent: since(one.polls, old?.polls),
                accepting: change(one.connections.accepted, old?.connections.accepted, time) };
        });
        const most = Math.max(0, ...now.loops.map((one) => one.longest_stall_of_its_own_us));
        const all = total(now.loops, (one) => one.stalls), free = total(now.loops, (one) => one.stalls_without_processor);
        longest.show(most, most > 10000 ? "warn" : "good");
        stalls.show(all, all > free ? "warn" : "good");
        without.show(free);
        p999.show(Math.max(...rows.map((row) => quantile(row.recent, .999)).filter(isFinite)));
        now.loops.forEach((one, i) => {
            if (!drawn[i]) {
                const svg = document.createElementNS(SVG, "svg"), text = make("div", { class: "name" });
                const card = make("div", { class: "card" }, make("div", { class: "name" }, "Loop " + i), svg, text);
                histograms.append(card);
                drawn[i] = { card, svg, text };
            }
            drawn[i].card.hidden = one.state === "ended";
            bars(drawn[i].svg, one.polls);
            const { bounds_us: bounds } = one.polls;
            put(drawn[i].text, `${us(bounds[0])} … ${us(bounds[bounds.length - 1])}, longest ${us(one.polls.max_us)}`);
        });
        table.show(rows.filter((row) => row.state !== "ended"));
    });
}
{
    const requests = new Card("requests", "Requests", rate(short));
    const connections = new Card("connections", "Connections", count);
    const idle = new Card("idle", "Idle connections", count);
    const accepted = new Card("accepted", "New connections", rate(short));
    const out = new Card("sent", "Sent by servers", rate(bytes));
    const failed = new Card("failed", "5xx of these", rate(short));
    const extra = make("div", { class: "cards" }, out.element, failed.element);
    section("traffic", "Traffic", cards(requests, accepted, connections, idle), extra);
    extra.style.marginTop = "10px";
    parts.push((now, before, time) => {
        const of = (answer, what) => answer && total(answer.loops, what);
        requests.show(change(of(now, (one) => one.requests), of(before, (one) => one.requests), time));
        const taken = (one) => one.connections.accepted;
        accepted.show(change(of(now, taken), of(before, taken), time));
        connections.show(of(now, (one) => one.connections.active));
        idle.show(of(now, (one) => one.connections.idle));
        const zones = (answer) => answer?.server_zones;
        extra.hidden = !(zones(now)?.length);
        if (!extra.hidden) {
            const sent = (answer) => zones(answer) && total(zones(answer), (zone) => zone.sent);
            const bad = (answer) => zones(answer) && total(zones(answer), (zone) => zone.responses["5xx"]);
            out.show(change(sent(now), sent(before), time));
            const now5 = change(bad(now), bad(before), time);
            failed.show(now5, now5 > 0 ? "bad" : "good");
        }
    });
}

{
    const pools = new Table("Thread pools", (row) => row.name, [
        word("Pool", (row) => row.name),
        figure("Threads", (row) => row.threads, count), figure("At most", (row) => row.limit, count),
        figure("At work", (row) => row.active, count, { line: true }),
        figure("Waiting", (row) => row.waiting, count, { grade: (row) => row.waiting > 0 ? "warn" : "", line: true }),
        figure("Served", (row) => row.rate, rate(short)),
        figure("Refused", (row) => row.refused, count, { grade: (row) => row.refused > 0 ? "bad" : "" }),
        figure("99 % wait less than", (row) => quantile(row.recentWait, .99), us),
        figure("99 % take less than", (row) => quantile(row.recentService, .99), us),
    ]);
    const mounts = new Table("Mounts", (row) => row.mount + " " + row.device, [
        word("Mount", (row) => row.mount || row.device), word("File system", (row) => row.type),
        word("Probe", (row) => row.rung + (row.demoted ? ", demoted" : ""),
            { grade: (row) => row.demoted ? "warn" : "", note: "How freerun asks whether a read would wait" }),
        figure("In memory", (row) => row.ratio, percent, { note: "Probes that found all in memory", line: true }),
        figure("Probes", (row) => row.rate, rate(short)), figure("Done by a pool", (row) => row.pooling, rate(short)),
        figure("Stalls", (row) => row.stalls, count, { grade: (row) => row.stalls > 0 ? "warn" : "" }),
        figure("Demotions", (row) => row.demotions, count),
        figure("Nothing ends for", (row) => row.stuck_us, us, { grade: (row) => row.stuck_us > 1e6 ? "bad" : "",
            note: "How long pools have been at work on it without any operation ending: the disk hangs" }),
    ]);
    linkRows("pools", mounts, (row, subject, part) => part !== "" && row.mount === subject && row.device === part);
    linkRows("pools", pools, (row, subject) => row.name === subject);
    section("pools", "Thread pools and mounts", pools.element, make("h3", {}, "Mounts"), mounts.element);
    parts.push((now, before, time) => {
        const oldPools = byKey(before?.pools, (pool) => pool.name);
        pools.show(now.pools.map((pool) => {
            const old = oldPools.get(pool.name);
            return { ...pool, rate: change(pool.served, old?.served, time), recentWait: since(pool.wait, old?.wait),
                recentService: since(pool.service, old?.service) };
        }));
        const key = (mount) => mount.mount + " " + mount.device, old = byKey(before?.mounts, key);
        mounts.show(now.mounts.map((mount) => {
            const was = old.get(key(mount)), hits = mount.hits - (was?.hits ?? 0), misses = mount.misses - (was?.misses ?? 0);
            return { ...mount, ratio: hits + misses > 0 ? hits / (hits + misses) : mount.hits / (mount.hits + mount.misses),
                rate: change(mount.hits + mount.misses, was && was.hits + was.misses, time),
                pooling: change(mount.pooled, was?.pooled, time) };
        }));
    });
}

/** Why a server gets no requests, in a few words. */
function why(server) {
    const { checks, failures, last_failure: last } = server;
    const kinds = { connect: "no connection", timeout: "timed out", closed: "closed early", invalid: "no valid response",
        status: "a failure's status", denied: "not allowed", other: "another error" };
    const failed = last ? `${kinds[last.kind] || last.kind}, ${seconds(last.seconds_ago)} ago` : "";
    switch (server.state) {
        case "unhealthy": return `health check failed (${short(checks.failed)} of ${short(checks.done)})`;
        case "unavail": return failed || Object.keys(failures).filter((kind) => failures[kind] > 0).join(", ");
        case "down": return "marked down";
        case "draining": return "draining";
        case "checking": return "waits for its first health check";
        default: return last && last.seconds_ago < 60 ? "last failure: " + failed : "";
    }
}
const states = { up: "good", draining: "warn", checking: "warn", down: "bad", unavail: "bad", unhealthy: "bad" };
const order = ["unhealthy", "unavail", "down", "checking", "draining", "up"];
function upstreamTable(title) {
    return new Table(title, (row) => row.key, [
        word("State", (row) => row.state, { grade: (row) => states[row.state], order: (row) => order.indexOf(row.state) }),
        word("Group", (row) => row.group), word("Server", (row) => row.shown),
        word("Why", (row) => row.why),
        ...action("Change", "Change…", (row) => changeServer(row)),
        drawn("15 minutes", (row) => past.servers.get(row.key)?.state, Strip),
        figure("Requests", (row) => row.rate, rate(short), { line: true }),
        figure("Failures", (row) => row.failing, rate(short), { grade: (row) => row.failing > 0 ? "bad" : "" }),
        figure("5xx", (row) => row.responses["5xx"], count),
        figure("Half below", (row) => quantile(row.recent, .5), us, { note: "Time to the head of the response" }),
        figure("99 % below", (row) => quantile(row.recent, .99), us, { note: "Time to the head of the response" }),
        figure("Weight", (row) => row.weight, count), figure("Active", (row) => row.active, count),
        figure("Idle", (row) => row.idle, count),
        figure("Connections reused", (row) => row.reuse_ratio, percent),
        figure("Sent", (row) => row.sending, rate(bytes)), figure("Received", (row) => row.receiving, rate(bytes)),
    ]);
}
const isServer = (row, subject, part) => row.group === subject && (!part || row.address === part || row.server === part);
const known = new Map();
/** The servers of groups as rows; tells of servers that went down or came back. */
function servers(now, before, time, kind) {
    const flat = (groups) => (groups || []).flatMap((group) => {
        const seen = new Map();
        return group.servers.map((server) => {
            const nth = (seen.get(server.address) || 0) + 1;
            seen.set(server.address, nth);
            const key = `${kind} ${group.name} ${server.address} ${nth}`;
            return { ...server, group: group.name, kind, nth, all: group.servers.length, key };
        });
    });
    const old = byKey(flat(before), (row) => row.key);
    return flat(now).map((row) => {
        const was = old.get(row.key), bad = (server) => server && sum(server.failures) - server.failures.stale;
        if (known.has(row.key) && known.get(row.key) !== row.state) {
            tell(`${row.group}: ${row.address} is ${row.state}${why(row) ? ", " + why(row) : ""}`);
        }
        known.set(row.key, row.state);
        return { ...row, why: why(row), shown: row.server === row.address ? row.address : `${row.server} (${row.address})`,
            rate: change(row.requests, was?.requests, time), failing: change(bad(row), bad(was), time),
            sending: change(row.sent, was?.sent, time), receiving: change(row.received, was?.received, time),
            recent: since(row.header, was?.header) };
    });
}
{
    const up = new Card("up", "Servers that take requests", count);
    const down = new Card("down", "Servers that do not", count);
    const waiting = new Card("waiting", "Requests in queues", count);
    const unresolved = make("p", { class: "bad" });
    const table = upstreamTable("Upstream servers");
    linkRows("upstreams", table, isServer);
    section("upstreams", "Upstream groups", cards(up, down, waiting), unresolved, table.element);
    parts.push((now, before, time) => {
        const rows = servers(now.upstreams, before?.upstreams, time, "http");
        const good = rows.filter((row) => row.state === "up").length;
        up.show(good, "good");
        down.show(rows.length - good, good < rows.length ? "bad" : "good");
        waiting.show(total(now.upstreams, (group) => group.waiting));
        const names = now.upstreams.flatMap((group) => group.unresolved.map((name) => `${group.name}: ${name}`));
        unresolved.hidden = names.length === 0;
        put(unresolved, "Names without an address: " + names.join(", "));
        table.show(rows);
    });
}
{
    const table = new Table("Caches", (row) => row.name, [
        word("Cache", (row) => row.name), word("Folder", (row) => row.path),
        word("State", (row) => row.disk.health === "in" ? row.state : `${row.disk.health}: ${row.disk.error || "out"}`,
            { grade: (row) => row.disk.health === "in" ? row.state === "ready" ? "good" : "warn" : "bad" }),
        ...action("Keys", "Keys…", (row) => changeCache(row)),
        figure("Hits", (row) => row.ratio, percent, { line: true, note: "Hits among the answers of the last interval" }),
        figure("Answers", (row) => row.rate, rate(short)),
        figure("Objects", (row) => row.entries, count), figure("Size", (row) => row.bytes, bytes),
        figure("Of", (row) => row.max_size ?? NaN, (n) => isFinite(n) ? bytes(n) : "no limit"),
        figure("Fills now", (row) => row.fills.now, count, { line: true }),
        figure("Fills", (row) => row.filling, rate(short)), figure("Waiting", (row) => row.waiting, count),
        figure("Evicted", (row) => row.evicting, rate(short)),
        figure("In memory", (row) => row.memory.object_bytes, bytes),
        figure("Hits from memory", (row) => row.memory.memory_hits, count),
        figure("Written", (row) => row.disk.write_rate, rate(bytes)), figure("Read", (row) => row.disk.read_rate, rate(bytes)),
        figure("Errors of the disk", (row) => row.disk.errors, count, { grade: (row) => row.disk.errors > 0 ? "bad" : "" }),
        figure("Late", (row) => row.disk.late, count, { note: "Requests that stopped waiting for the disk" }),
    ]);
    linkRows("caches", table, (row, subject) => row.name === subject);
    section("caches", "Caches", table.element);
    parts.push((now, before, time) => {
        const old = byKey(before?.caches, (cache) => cache.name);
        table.show(now.caches.map((cache) => {
            const was = old.get(cache.name), all = sum(cache.answers), earlier = was && sum(was.answers);
            const fresh = earlier !== undefined && all > earlier;
            return { ...cache, rate: change(all, earlier, time), filling: change(cache.fills.begun, was?.fills.begun, time),
                ratio: fresh ? (cache.answers.hit - was.answers.hit) / (all - earlier) : all > 0 ? cache.hit_ratio : NaN,
                evicting: change(cache.removed.evicted, was?.removed.evicted, time) };
        }));
    });
}
{
    const handshakes = new Card("handshakes", "Handshakes with clients", rate(short));
    const resumed = new Card("resumed", "Of these, resumed sessions", percent);
    const failed = new Card("tls-failed", "Handshakes that failed", rate(short));
    const table = new Table("Certificates", (row) => row.file + row.subject + row.names.join() + row.key + row.expires, [
        figure("Expires in", (row) => row.left, (days) => days < 0 ? "expired" : days < 2 ? Math.round(days * 24) + " h"
            : Math.floor(days) + " d", { grade: (row) => row.left < 7 ? "bad" : row.left < 21 ? "warn" : "good" }),
        word("Names", (row) => row.names.join(" ") || row.subject), word("Key", (row) => row.key),
        word("Issuer", (row) => row.issuer), word("File", (row) => row.file),
    ]);
    const orders = new Table("Certificates by ACME", (row) => row.issuer + row.names.join() + row.key, [
        word("Names", (row) => row.names.join(" ")), word("Issuer", (row) => row.issuer),
        word("State", (row) => row.state, { grade: (row) => ({ valid: "good", failed: "bad" })[row.state] || "warn" }),
        word("Next attempt", (row) => row.next_attempt ? new Date(row.next_attempt * 1000).toISOString() : "now"),
        word("Last error", (row) => row.last_error || ""),
    ]);
    const more = make("div", {}, make("h3", {}, "By ACME"), orders.element);
    linkRows("tls", table, (row, subject, part) => row.file === part && (row.names[0] || row.subject) === subject);
    linkRows("tls", orders, (row, subject, part) => row.issuer === part && row.names.join(", ") === subject);
    section("tls", "TLS", cards(handshakes, resumed, failed), make("h3", {}, "Certificates"), table.element, more);
    parts.push((now, before, time) => {
        const one = now.tls.clients, was = before?.tls.clients;
        handshakes.show(change(one.handshakes, was?.handshakes, time));
        const part = was && one.handshakes > was.handshakes ? [one.resumed - was.resumed, one.handshakes - was.handshakes]
            : [one.resumed, one.handshakes];
        resumed.show(part[0] / part[1]);
        failed.show(change(sum(one.failed), was && sum(was.failed), time));
        table.show(now.tls.certificates.map((certificate) =>
            ({ ...certificate, left: (certificate.expires - Date.now() / 1000) / 86400 })));
        more.hidden = now.acme.length === 0;
        orders.show(now.acme);
    });
}
{
    const open = new Card("h2", "Connections of HTTP/2", count);
    const streams = new Card("h2-streams", "Streams", rate(short));
    const floods = new Card("h2-floods", "Connections ended for a flood", count);
    const sessions = new Card("sessions", "Sessions of stream", count);
    const begun = new Card("sessions-new", "New sessions", rate(short));
    const out = new Card("sessions-out", "Sent in sessions that ended", rate(bytes));
    const table = upstreamTable("Servers of stream");
    linkRows("streams", table, isServer);
    section("streams", "HTTP/2 and stream", cards(open, streams, floods, sessions, begun, out),
        make("h3", {}, "Upstream groups of stream"), table.element);
    parts.push((now, before, time) => {
        open.show(now.http2.open);
        streams.show(change(now.http2.streams, before?.http2.streams, time));
        const all = sum(now.http2.floods);
        floods.show(all, all > 0 ? "warn" : "good");
        sessions.show(now.stream.open);
        begun.show(change(now.stream.sessions, before?.stream.sessions, time));
        out.show(change(now.stream.sent, before?.stream.sent, time));
        table.show(servers(now.stream.upstreams, before?.stream.upstreams, time, "stream"));
    });
}
{
    const columns = (kind, history) => [
        word(kind, (row) => row.name),
        figure("Requests", (row) => row.rate, rate(short), { line: true }),
        figure("Now", (row) => row.processing ?? NaN, count),
        figure("2xx", (row) => row.responses["2xx"], count),
        figure("3xx", (row) => row.responses["3xx"], count),
        figure("4xx", (row) => row.responses["4xx"], count, { grade: (row) => row.bad4 > 0 ? "warn" : "" }),
        figure("5xx", (row) => row.responses["5xx"], count, { grade: (row) => row.bad5 > 0 ? "bad" : "" }),
        ...history,
        figure("Received", (row) => row.receiving, rate(bytes)),
        figure("Sent", (row) => row.sending, rate(bytes)),
        figure("Half below", (row) => row.recent ? quantile(row.recent, .5) : NaN, us),
        figure("99 % below", (row) => row.recent ? quantile(row.recent, .99) : NaN, us),
    ];
    const history = drawn("5xx, 15 minutes", (row) => past.zones.get(row.name)?.errors, Errors);
    const servers = new Table("Servers", (row) => row.name, columns("Server", [history]), { column: 1, down: true });
    const locations = new Table("Location zones", (row) => row.name, columns("Location", []), { column: 1, down: true });
    const limits = new Table("Limit zones", (row) => row.kind + row.name, [
        word("Zone", (row) => row.name), word("Kind", (row) => row.kind),
        figure("Passed", (row) => row.passed, count),
        figure("Delayed", (row) => row.delayed ?? NaN, count),
        figure("Refused", (row) => row.rejected, count, { grade: (row) => row.refusing > 0 ? "bad" : "" }),
        figure("Refused now", (row) => row.refusing, rate(short), { line: true }),
        figure("Would be refused (dry run)", (row) => row.rejected_dry_run, count),
    ], { column: 4, down: true });
    const sessions = new Table("Servers and zones of stream", (row) => row.name, columns("Server", [history]), { column: 1, down: true });
    const ofStream = make("div", {}, make("h3", {}, "Servers and zones of stream"), sessions.element);
    linkRows("zones", servers, (row, subject, part) => part === "" && row.name === subject);
    linkRows("zones", sessions, (row, subject, part) => part === "stream" && row.name === subject);
    linkRows("zones", limits, (row, subject, part) => row.kind === part && row.name === subject);
    section("zones", "Zones", make("h3", {}, "Servers"), servers.element, ofStream,
        make("h3", {}, "Locations with status_zone"), locations.element,
        make("h3", {}, "Limits"), limits.element);
    const rows = (now, before, time) => {
        const old = byKey(before, (zone) => zone.name);
        return (now || []).map((zone) => {
            const was = old.get(zone.name);
            const class_ = (name) => change(zone.responses[name], was?.responses[name], time);
            return { ...zone, rate: change(zone.requests, was?.requests, time), bad4: class_("4xx"), bad5: class_("5xx"),
                receiving: change(zone.received, was?.received, time), sending: change(zone.sent, was?.sent, time),
                recent: zone.times && since(zone.times, was?.times) };
        });
    };
    parts.push((now, before, time) => {
        servers.show(rows(now.server_zones, before?.server_zones, time));
        sessions.show(rows(now.stream.server_zones, before?.stream.server_zones, time));
        ofStream.hidden = now.stream.server_zones.length === 0;
        locations.show(rows(now.location_zones, before?.location_zones, time));
        const all = (answer) => [...(answer?.limit_reqs || []).map((zone) => ({ ...zone, kind: "requests" })),
            ...(answer?.limit_conns || []).map((zone) => ({ ...zone, kind: "connections" })),
            ...(answer?.stream.limit_conns || []).map((zone) => ({ ...zone, kind: "sessions" }))];
        const old = byKey(all(before), (zone) => zone.kind + zone.name);
        limits.show(all(now).map((zone) => ({ ...zone,
            refusing: change(zone.rejected, old.get(zone.kind + zone.name)?.rejected, time) })));
    });
}
{
    const facts = new Table("Cluster", (row) => row.name, [word("", (row) => row.name), word("Value", (row) => row.value)]);
    const shared = new Table("Shared state", (row) => row.kind + row.name, [
        word("Name", (row) => row.name), word("Kind", (row) => row.kind),
        figure("Pairs", (row) => row.pairs ?? NaN, count),
        figure("Purges of others", (row) => row.purges ?? NaN, count),
        figure("Waiting", (row) => row.pending, count,
            { grade: (row) => row.pending > 0 ? "warn" : "", note: "Changes, purges and keys that the engine does not know yet" }),
        figure("Left out", (row) => row.left_out ?? NaN, count,
            { grade: (row) => row.left_out > 0 ? "bad" : "", note: "Pairs that found no room here, or cannot be read" }),
        figure("Whole purges", (row) => row.full_purges ?? NaN, count, { note: "Purges of everything, because some were missed" }),
        word("Applied", (row) => row.applied || ""),
    ]);
    linkRows("cluster", facts, () => false);
    const element = section("cluster", "Cluster", facts.element, make("h3", {}, "What is shared"), shared.element);
    const link = document.querySelector('nav a[href="#cluster"]');
    parts.push((now) => {
        const cluster = now.cluster;
        element.hidden = link.hidden = !cluster;
        if (!cluster) return;
        facts.show([
            { name: "Engine", value: cluster.engine }, { name: "Server", value: cluster.peer },
            { name: "State", value: cluster.error ? `${cluster.state}: ${cluster.error}` : cluster.state },
            { name: "Machines", value: count(cluster.nodes) }, { name: "Round trip", value: us(cluster.round_trip_us) },
            { name: "Entries out, in", value: `${count(cluster.messages_out)}, ${count(cluster.messages_in)}` },
        ]);
        shared.show([...cluster.zones.map((zone) => ({ ...zone, kind: "pairs" })),
            ...cluster.limits.map((limit) => ({ ...limit, kind: limit.alone ? "rates, alone" : "rates" })),
            ...cluster.caches.map((cache) => ({ ...cache, kind: "purges" }))]);
    });
}
{
    const table = new Table("Logs", (row) => row.name, [
        word("Log", (row) => row.name),
        figure("Lost lines", (row) => row.lost_lines, count, { grade: (row) => row.lost_lines > 0 ? "bad" : "" }),
        figure("Waiting", (row) => row.waiting_bytes, bytes),
        word("State", (row) => row.held_up ? "held up" : "ok", { grade: (row) => row.held_up ? "bad" : "good" }),
    ]);
    const last = make("pre", { id: "errors", tabindex: "0", "aria-label": "The last lines of the error log" });
    linkRows("logs", table, (row, subject) => row.name === subject);
    section("logs", "Logs", table.element, make("h3", {}, "The last lines of the error log, newest first"), last);
    parts.push((now) => {
        table.show(now.logs);
        put(last, now.last_errors.length ? [...now.last_errors].reverse().join("\n") : "There are none.");
    });
}

