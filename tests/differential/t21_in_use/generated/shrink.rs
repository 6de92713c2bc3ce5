//! Makes a case that differs smaller, as long as it differs.

use super::batch::{Batch, Case};
use super::config::{Node, count, print, without};
use super::requests::{Request, bytes};
use freerun_testkit::Site;

/// One way to make a case smaller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The directive of this number goes.
    Drop(usize),
    /// A block's directives take its place.
    Unwrap(usize),
    /// The request of this number goes.
    Request(usize),
    /// A field of a request goes.
    Field(usize, usize),
    /// A request's body goes, with the fields that tell of it.
    Body(usize),
    /// The query goes.
    Query(usize),
}

/// Without it, the body's bytes would be the next request.
fn of_body(field: &str) -> bool {
    field.starts_with("Content-Length") || field.starts_with("Transfer-Encoding")
}

fn apply(case: &Case, step: Step) -> Case {
    let mut case = case.clone();
    match step {
        Step::Drop(at) => case.nodes = without(&case.nodes, &mut at.clone(), false),
        Step::Unwrap(at) => case.nodes = without(&case.nodes, &mut at.clone(), true),
        Step::Request(at) => {
            case.connections[0].remove(at);
        }
        Step::Field(request, at) => {
            case.connections[0][request].fields.remove(at);
        }
        Step::Body(at) => {
            let request = &mut case.connections[0][at];
            request.body.clear();
            request.fields.retain(|field| !of_body(field));
        }
        Step::Query(at) => {
            let target = &mut case.connections[0][at].target;
            target.truncate(target.find('?').unwrap_or(target.len()));
        }
    }
    case
}

/// All steps from here; those that are applied together stand in an order in which the earlier ones leave the later ones' numbers alone.
fn steps(case: &Case) -> Vec<Step> {
    let mut steps: Vec<Step> =
        (1..count(&case.nodes)).rev().flat_map(|at| [Step::Drop(at), Step::Unwrap(at)]).collect();
    let requests = &case.connections[0];
    for (at, request) in requests.iter().enumerate().rev() {
        let fields = (0..request.fields.len()).rev().filter(|field| !of_body(&request.fields[*field]));
        steps.extend(fields.map(|field| Step::Field(at, field)));
        if !request.body.is_empty() {
            steps.push(Step::Body(at));
        }
        if request.target.contains('?') {
            steps.push(Step::Query(at));
        }
        if requests.len() > 1 {
            steps.push(Step::Request(at));
        }
    }
    steps.retain(|step| match step {
        Step::Unwrap(_) => {
            apply(case, *step).nodes != apply(case, Step::Drop(if let Step::Unwrap(at) = step { *at } else { 0 })).nodes
        }
        _ => true,
    });
    steps
}

/// Which of the candidates still differ.
fn differing(site: &Site, http: &[Node], cases: Vec<Case>) -> Vec<(usize, String)> {
    let batch = Batch { http: http.to_vec(), cases };
    let mut found: Vec<(usize, String)> =
        batch.run(site).answers.into_iter().map(|(case, _, text)| (case, text)).collect();
    found.sort();
    found
}

/// The smallest case found that differs, with its lines in `http`, as text, with the difference; `None` if it does not differ alone.
pub fn shrink(site: &Site, http: &[Node], nodes: &[Node], connection: &[Request]) -> Option<String> {
    let mut case = Case { nodes: nodes.to_vec(), connections: vec![connection.to_vec()] };
    let mut http = http.to_vec();
    let mut text = differing(site, &http, vec![case.clone()]).pop()?.1;
    let mut at = 0;
    while at < http.len() {
        let fewer = without(&http, &mut at.clone(), false);
        match differing(site, &fewer, vec![case.clone()]).pop() {
            Some((_, found)) => (http, text) = (fewer, found),
            None => at += 1,
        }
    }
    // Each turn makes it smaller.
    loop {
        let steps = steps(&case);
        let single: Vec<Case> = steps.iter().map(|step| apply(&case, *step)).collect();
        let found = differing(site, &http, single.clone());
        let Some((best, why)) = found.iter().min_by_key(|(at, _)| size(&single[*at])) else { break };
        // All of them together, and the first half, quarter, … of them: mostly more than one step is possible at once.
        let drops: Vec<Step> =
            found.iter().map(|(at, _)| steps[*at]).filter(|step| !matches!(step, Step::Unwrap(_))).collect();
        let together: Vec<Case> = (1..=drops.len())
            .map(|count| drops[..count].iter().fold(case.clone(), |case, step| apply(&case, *step)))
            .collect();
        let together: Vec<Case> = together.into_iter().filter(|case| !case.connections[0].is_empty()).collect();
        let all = differing(site, &http, together.clone());
        match all.iter().min_by_key(|(at, _)| size(&together[*at])) {
            Some((at, why)) if size(&together[*at]) < size(&single[*best]) => {
                (case, text) = (together[*at].clone(), why.clone())
            }
            _ => (case, text) = (single[*best].clone(), why.clone()),
        }
    }
    let mut out = String::new();
    if !http.is_empty() {
        out += "    http:\n";
        print(&http, 6, &mut out);
    }
    print(&case.nodes, 4, &mut out);
    Some(format!("{out}  \"{}\"\n{text}", bytes(&case.connections[0], "@HOST@").escape_ascii()))
}

fn size(case: &Case) -> usize {
    let requests = &case.connections[0];
    let said: usize = requests.iter().map(|request| 3 + request.fields.len() + request.body.len().min(1)).sum();
    count(&case.nodes) * 2 + said
}
