// ---- actions, with an API that may change something ------------------------------------------------------------------

/** A request to the API; gives the body of the answer, or throws with the reason. */
async function callApi(method, path, body) {
    const response = await fetch(API + path, { method, cache: "no-store", signal: AbortSignal.timeout(20000),
        body: body === undefined ? undefined : JSON.stringify(body) });
    const text = await response.text();
    let answer = null;
    try { answer = text ? JSON.parse(text) : null; } catch { /* an error page of another module */ }
    if (!response.ok) throw new Error(answer?.error?.text || "status " + response.status);
    return { answer, note: response.headers.get("Freerun-Note") || "" };
}

/** A dialog that says what it would do before it does it. */
class Dialog {
    constructor() {
        this.title = make("h2", { id: "dialog-title" });
        this.fields = make("div", { class: "fields" });
        this.effect = make("p", {});
        this.result = make("p", { role: "status" });
        this.confirm = make("button", { type: "submit" });
        const cancel = make("button", { type: "button" }, "Close");
        this.form = make("form", { method: "dialog" }, this.title, this.fields, this.effect, this.result,
            make("div", { class: "tools" }, this.confirm, cancel));
        this.element = make("dialog", { "aria-labelledby": "dialog-title" }, this.form);
        document.body.append(this.element);
        cancel.addEventListener("click", () => this.element.close());
        this.form.addEventListener("submit", (event) => {
            event.preventDefault();
            this.run();
        });
        this.form.addEventListener("input", () => this.update());
    }
    /** Opens it. `describe` gives the words of the button, the effect, and whether that can be done; `act` does it. */
    open(title, fields, describe, act) {
        put(this.title, title);
        this.fields.replaceChildren(...fields.map(([name, field]) => make("label", {}, name + " ", field)));
        [this.describe, this.act] = [describe, act];
        this.update();
        this.element.showModal();
    }
    update() {
        const { words, effect, can } = this.describe();
        put(this.confirm, words);
        put(this.effect, effect);
        put(this.result, "");
        this.confirm.disabled = !can;
    }
    async run() {
        this.confirm.disabled = true;
        put(this.result, "…");
        try {
            put(this.result, await this.act());
            this.result.className = "good";
            ask();
        } catch (error) {
            put(this.result, error.message);
            this.result.className = "bad";
        }
        this.confirm.disabled = false;
    }
}
const dialog = API === undefined ? null : new Dialog();

const choice = (...options) => make("select", {}, ...options.map(([value, text]) => make("option", { value }, text)));

/** Takes a server of a group out, brings it back, or changes its weight. */
function changeServer(row) {
    const http = row.kind === "http", list = `/9/${row.kind}/upstreams/${encodeURIComponent(row.group)}/servers`;
    const what = choice(...(http ? [["drain", "Drain"]] : []), ["down", "Take down"], ["up", "Bring up"], ["weight", "Set the weight"]);
    const weight = make("input", { type: "number", min: "1", max: "65535", value: String(row.weight) });
    what.value = row.state === "down" || row.state === "draining" ? "up" : what.value;
    const named = row.server === row.address ? "" : ` This concerns all addresses of ${row.server}.`;
    const effects = {
        drain: () => `${row.shown} gets no new clients; those that are bound to it stay.`,
        down: () => `${row.shown} gets no requests any more; those that it has are finished.`,
        up: () => `${row.shown} gets requests again.`,
        weight: () => `${row.shown} gets requests by the weight ${weight.value} instead of ${row.weight}.`,
    };
    const words = { drain: "Drain it", down: "Take it down", up: "Bring it up", weight: "Set it" };
    dialog.open(`Server ${row.shown} of ${row.group}`, [["What to do:", what], ["Weight:", weight]], () => {
        weight.parentElement.hidden = what.value !== "weight";
        return { words: words[what.value], effect: effects[what.value]() + named,
            can: what.value !== "weight" || weight.checkValidity() && weight.value !== "" };
    }, async () => {
        const { answer: servers } = await callApi("GET", list);
        const found = servers.filter((one) => one.server === row.address || one.server === row.server);
        const one = found.find((server) => server.server === row.server) || found[row.nth - 1] || found[0];
        if (!one) throw new Error("It is not there any more.");
        const bodies = { drain: { drain: true }, down: { down: true }, weight: { weight: Number(weight.value) },
            up: http && one.drain ? { down: false, drain: false } : { down: false } };
        const { note } = await callApi("PATCH", `${list}/${one.parent || one.id}`, bodies[what.value]);
        return "Done." + (note ? ` But ${note}.` : "");
    });
}

/** Explains or purges keys of a cache. */
function changeCache(row) {
    const path = `/freerun/1/caches/${encodeURIComponent(row.name)}`;
    const what = choice(["explain", "Explain a key"], ["key", "Purge a key"], ["prefix", "Purge all keys that begin so"],
        ["tag", "Purge all objects with a tag"]);
    const text = make("input", { type: "text", size: "40" });
    const effects = {
        explain: () => "It changes nothing.",
        key: () => `What is stored for the key ${text.value} is not used any more.`,
        prefix: () => `Whatever is stored for keys that begin with ${text.value} is not used any more.`,
        tag: () => `Whatever is stored with the tag ${text.value} is not used any more.`,
    };
    const words = { explain: "Explain", key: "Purge", prefix: "Purge all of them", tag: "Purge all of them" };
    dialog.open(`Cache ${row.name}`, [["What to do:", what], ["Text:", text]], () => ({ words: words[what.value],
        effect: effects[what.value](), can: text.value !== "" }), async () => {
        const keys = `${path}/keys?key=${encodeURIComponent(text.value)}`;
        if (what.value === "explain") {
            const { answer } = await callApi("GET", keys);
            return `${answer.place}: ${answer.why}`;
        }
        if (what.value === "key") await callApi("DELETE", keys);
        else await callApi("POST", path + "/purge", what.value === "tag" ? { tags: [text.value] } : { key: text.value + "*" });
        return "Done.";
    });
}

