// Runs the tests of the npm package http-cache-tests against a cache in front of its server, and prints how many pass.
//
//   node run.mjs PACKAGE_FOLDER http://127.0.0.1:PORT [ID]
//
// A line for each kind of test ("required", "optimal", "check"): passed, passed with all that it depends on, number of tests.
// Then a line for each test that does not pass: "not", its kind, its name, and what was wrong. With an ID only that test runs,
// and what goes back and forth is shown.

import { createRequire } from 'node:module'

const [folder, base, only] = process.argv.slice(2)
const fetch = createRequire(`${folder}/cli.mjs`)('node-fetch')
const { runTests, getResults } = await import(`${folder}/client/runner.mjs`)
const suites = (await import(`${folder}/tests/index.mjs`)).default
const tests = new Map(suites.flatMap(suite => suite.tests.map(test => [test.id, test])))

let chosen = suites
if (only) {
  const test = tests.get(only)
  test.dump = true
  chosen = [{ name: only, id: only, tests: [test] }]
}
// A hundred at once, as its own command does: most of the time they wait for lifetimes to end.
await runTests(chosen, fetch, false, base)
const results = getResults()

const passes = id => results[id] === true && (tests.get(id).depends_on ?? []).every(passes)
const counts = new Map()
const failed = []
for (const [id, test] of tests) {
  const kind = test.kind ?? 'required'
  const count = counts.get(kind) ?? [0, 0, 0]
  counts.set(kind, count)
  count[2] += 1
  if (only && id !== only) continue
  count[0] += results[id] === true
  count[1] += passes(id)
  if (!passes(id) && !test.browser_only) {
    const why = results[id] === true ? `depends on ${test.depends_on.filter(other => !passes(other))}` : JSON.stringify(results[id])
    failed.push(`not ${kind} ${id} ${why}`)
  }
}
for (const [kind, count] of counts) console.log(kind, ...count)
for (const line of failed) console.log(line)
process.exit(0)
