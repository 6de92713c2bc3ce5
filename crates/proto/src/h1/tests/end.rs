//! Tests: what becomes of a connection behind a response, in every state.

use crate::BodyFraming;
use crate::h1::{
    CloseReason, DiscardResult, EndStep, ExchangeEnd, LingerMode, Persistence, RequestBody, ResponseFraming,
};

const FRAMINGS: [ResponseFraming; 4] =
    [ResponseFraming::None, ResponseFraming::Length, ResponseFraming::Chunked, ResponseFraming::UntilEnd];
const CLOSED: Persistence = Persistence::Closed(CloseReason::ClientAsked);

/// The body of a request when its response has been sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BodyState {
    Complete,
    /// Complete, with bytes behind it.
    Followed,
    Unread,
    /// The handler has had a part of it.
    HalfRead,
}

impl BodyState {
    fn is_complete(self) -> bool {
        matches!(self, BodyState::Complete | BodyState::Followed)
    }

    /// The body, and how many bytes have come.
    fn body(self) -> (RequestBody, usize) {
        let mut body = RequestBody::new(BodyFraming::Length(2), 4, false);
        let buffer = b"headabX";
        let wanted = match self {
            BodyState::Complete | BodyState::Followed => 2,
            BodyState::HalfRead => 1,
            BodyState::Unread => return (body, 4),
        };
        assert!(body.next_wanted(buffer, wanted).is_ok_and(|piece| piece.data == Some(4..4 + wanted)));
        (body, if self == BodyState::Followed { 7 } else { 4 + wanted })
    }
}

/// The answers of the world to the machine.
#[derive(Debug, Clone, Copy)]
struct Answers {
    discarded: DiscardResult,
    has_input: bool,
    session_ends: bool,
}

/// The steps of an exchange, from the first to the last.
fn steps(mut end: ExchangeEnd, state: BodyState, answers: Answers) -> Vec<EndStep> {
    let (mut body, received) = state.body();
    let mut steps = Vec::new();
    loop {
        let step = end.step(&body, received);
        end.check_invariants();
        steps.push(step);
        match step {
            EndStep::DiscardBody => {
                if answers.discarded == DiscardResult::Complete {
                    body.skip(b"headab", &mut 0).unwrap();
                }
                end.body_discarded(answers.discarded);
            }
            EndStep::LookForInput => end.input_found(answers.has_input),
            EndStep::EndSession => end.session_ended(answers.session_ends),
            EndStep::NextRequest | EndStep::Linger | EndStep::Close => return steps,
        }
    }
}

/// The rules in the words of the specification, apart from the machine.
fn expected(
    is_kept: bool,
    framing: ResponseFraming,
    linger: LingerMode,
    state: BodyState,
    answers: Answers,
) -> Vec<EndStep> {
    let mut steps = Vec::new();
    let last = |may_be_sending: bool| match linger {
        LingerMode::Off => EndStep::Close,
        LingerMode::On if !may_be_sending => EndStep::Close,
        LingerMode::On | LingerMode::Always => EndStep::Linger,
    };
    let awaits_body = state == BodyState::Unread && framing != ResponseFraming::UntilEnd;
    let mut is_complete = state.is_complete();
    if !is_complete && (is_kept || awaits_body) {
        steps.push(EndStep::DiscardBody);
        match answers.discarded {
            DiscardResult::Complete => is_complete = true,
            DiscardResult::Silent => steps.push(EndStep::Close),
            DiscardResult::Faulty => steps.push(last(true)),
        }
        if !is_complete {
            return steps;
        }
    }
    if is_kept {
        steps.push(EndStep::NextRequest);
        return steps;
    }
    // All bytes that have come of a body that is discarded were used.
    let mut may_be_sending = !is_complete || state == BodyState::Followed;
    // The body that was discarded came behind the bytes that the table counts.
    if !may_be_sending {
        steps.push(EndStep::LookForInput);
        may_be_sending = answers.has_input;
    }
    if framing == ResponseFraming::UntilEnd {
        steps.push(EndStep::EndSession);
        may_be_sending |= !answers.session_ends;
    }
    steps.push(last(may_be_sending));
    steps
}

#[test]
fn every_state_has_its_steps() {
    let mut cases = 0;
    for (persistence, ends_untold) in [(Persistence::Kept, false), (Persistence::Kept, true), (CLOSED, false)] {
        let is_kept = persistence.is_kept() && !ends_untold;
        for framing in FRAMINGS {
            if is_kept && framing == ResponseFraming::UntilEnd {
                continue;
            }
            for linger in [LingerMode::Off, LingerMode::On, LingerMode::Always] {
                for state in [BodyState::Complete, BodyState::Followed, BodyState::Unread, BodyState::HalfRead] {
                    for discarded in [DiscardResult::Complete, DiscardResult::Silent, DiscardResult::Faulty] {
                        for bits in 0..4 {
                            let answers = Answers { discarded, has_input: bits & 1 != 0, session_ends: bits & 2 != 0 };
                            let end = ExchangeEnd::new(persistence, ends_untold, framing, linger);
                            let found = steps(end, state, answers);
                            let expected = expected(is_kept, framing, linger, state, answers);
                            assert_eq!(
                                found, expected,
                                "{persistence:?} {ends_untold} {framing:?} {linger:?} {state:?} {answers:?}"
                            );
                            cases += 1;
                        }
                    }
                }
            }
        }
    }
    assert_eq!(cases, 11 * 3 * 4 * 3 * 4);
}

/// The usual exchanges, for readers.
#[test]
fn usual_exchanges() {
    let answers = Answers { discarded: DiscardResult::Complete, has_input: false, session_ends: true };
    let run = |persistence, framing, state| {
        steps(ExchangeEnd::new(persistence, false, framing, LingerMode::On), state, answers)
    };
    let kept = Persistence::Kept;
    assert_eq!(run(kept, ResponseFraming::Length, BodyState::Complete), [EndStep::NextRequest]);
    assert_eq!(run(kept, ResponseFraming::Length, BodyState::Unread), [EndStep::DiscardBody, EndStep::NextRequest]);
    assert_eq!(run(CLOSED, ResponseFraming::Length, BodyState::Complete), [EndStep::LookForInput, EndStep::Close]);
    assert_eq!(run(CLOSED, ResponseFraming::Length, BodyState::Followed), [EndStep::Linger]);
    assert_eq!(run(CLOSED, ResponseFraming::Length, BodyState::HalfRead), [EndStep::Linger]);
    assert_eq!(run(CLOSED, ResponseFraming::UntilEnd, BodyState::Unread), [EndStep::EndSession, EndStep::Linger]);
    let steps = run(CLOSED, ResponseFraming::UntilEnd, BodyState::Complete);
    assert_eq!(steps, [EndStep::LookForInput, EndStep::EndSession, EndStep::Close]);
}
