// ---- asking ----------------------------------------------------------------------------------------------------------

/** Says something to those who cannot see it; only the last few are kept. */
function tell(text) {
    const news = document.getElementById("news");
    news.append(make("p", {}, text));
    while (news.children.length > 20) news.firstElementChild.remove();
}

const stateOf = document.getElementById("state"), pause = document.getElementById("pause");
const every = document.getElementById("every");
let paused = false, before = null, asked = 0, timer = 0, size = 0, working = false;

/** The answer of this page's own address with these arguments, as text. */
async function fetchState(search) {
    const address = new URL(location.href);
    address.search = search;
    address.hash = "";
    const response = await fetch(address, { headers: { Accept: "application/json" }, cache: "no-store",
        signal: AbortSignal.timeout(20000) });
    if (!response.ok) throw new Error("status " + response.status);
    return response.text();
}

async function ask() {
    clearTimeout(timer);
    if (paused || document.hidden || working) return;
    working = true;
    try {
        const text = await fetchState("?format=json");
        size = text.length;
        if (performance.now() - pastAt > PAST_INTERVAL) {
            pastAt = performance.now();
            showPast(JSON.parse(await fetchState("?history=on")));
        }
        show(JSON.parse(text));
        put(stateOf, "");
        stateOf.className = "";
        document.getElementById("main").classList.remove("old");
    } catch (error) {
        put(stateOf, `No answer (${error.message}), trying again`);
        stateOf.className = "bad";
        document.getElementById("main").classList.add("old");
    }
    working = false;
    timer = setTimeout(ask, 1000 * Math.max(Number(every.value), size > LARGE ? 5 : 0));
}

function show(now) {
    const at = performance.now() / 1000;
    // A new worker counts from 0.
    const last = before && before.answer.pid === now.pid ? before : null;
    histories.next();
    for (const part of parts) part(now, last?.answer, last ? at - last.at : NaN);
    put(document.getElementById("about"), `${now.version} · configuration ${now.generation}, ${now.reloads} reloads · worker `
        + `${now.pid}, up for ${seconds(now.uptime_seconds)}`);
    before = { answer: now, at };
    document.documentElement.dataset.answers = String(++asked);
    // There were no rows to go to before the first answer.
    if (asked === 1 && location.hash) showTarget();
}

pause.addEventListener("click", () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", String(paused));
    put(stateOf, paused ? "Paused" : "");
    ask();
});
every.addEventListener("change", ask);
document.addEventListener("visibilitychange", ask);
ask();
