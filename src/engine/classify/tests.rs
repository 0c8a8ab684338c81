use super::*;

fn of(attempt: Attempt, idempotent: bool) -> Ruling {
    classify(attempt, idempotent, Acks::All, &HashMap::new())
}

fn code(code: i16) -> Ruling {
    of(Attempt::Answered(ErrorCode::from(code)), true)
}

fn codes(keep: impl Fn(&Ruling) -> bool, idempotent: bool) -> Vec<i16> {
    let kept = |code: &&ErrorCode| keep(&of(Attempt::Answered(**code), idempotent));
    ErrorCode::ALL.iter().filter(kept).map(|code| code.code()).collect()
}

#[test]
fn only_what_is_in_the_log_is_delivered() {
    for idempotent in [true, false] {
        assert_eq!(codes(|r| r.verdict == Verdict::Delivered, idempotent), [0, 46]);
    }
    assert_eq!(code(46).special, Special::Duplicate);
}

#[test]
fn what_may_have_been_written() {
    assert_eq!(codes(|r| r.ambiguous, true), [-1, 7, 13, 20]);
    assert_eq!(codes(|r| r.ambiguous, false), [-1, 7, 13, 20]);
    for attempt in [Attempt::Disconnected, Attempt::TimedOut] {
        assert!(of(attempt, true).ambiguous && of(attempt, false).ambiguous);
    }
    assert!(of(Attempt::Answered(ErrorCode::Unknown(999)), false).ambiguous);
    // A request of which only a part was written is read by nobody.
    assert!(!classify(Attempt::Disconnected, false, Acks::Zero, &HashMap::new()).ambiguous);
    assert!(classify(Attempt::Disconnected, false, Acks::One, &HashMap::new()).ambiguous);
}

#[test]
fn an_offset_in_a_refusal_says_that_the_batch_was_appended() {
    for (number, ambiguous) in [(3, true), (6, true), (56, true), (19, false), (2, false), (10, false)] {
        let code = ErrorCode::from(number);
        assert_eq!(of(Attempt::answered(code, 17), true).ambiguous, ambiguous, "{code}");
        assert_eq!(Attempt::answered(code, -1), Attempt::Answered(code), "{code}");
    }
    assert_eq!(Attempt::answered(ErrorCode::None, 17), Attempt::Answered(ErrorCode::None));
}

#[test]
fn special_ways_belong_to_their_codes() {
    for (special, expected) in [
        (Special::Split, vec![10, 18]),
        (Special::NamedRecords, vec![32, 87]),
        (Special::RecoverSequence, vec![45, 47, 59]),
        (Special::UnknownTopic, vec![3, 100]),
        (Special::Duplicate, vec![46]),
        (Special::Renegotiate, vec![35]),
        (Special::Rebootstrap, vec![104, 129]),
    ] {
        assert_eq!(codes(|r| r.special == special, true), expected, "{special:?}");
    }
}

/// An uncounted way must be bounded by something else: it makes the batch smaller, or the second time counts.
#[test]
fn what_is_retried_is_counted_or_has_its_own_bound() {
    let uncounted = |r: &Ruling| {
        matches!(r.verdict, Verdict::RetryAfterRefresh | Verdict::RetryAfterBackoff) && !r.counted
    };
    assert_eq!(codes(uncounted, true), [45, 47, 59]);
    assert!(codes(uncounted, false).is_empty());
    for attempt in [Attempt::Disconnected, Attempt::TimedOut, Attempt::Answered(ErrorCode::Unknown(7000))] {
        assert!(of(attempt, true).counted && of(attempt, false).counted);
    }
}

#[test]
fn limits_of_their_own() {
    let limited: Vec<(i16, u32)> =
        ErrorCode::ALL.iter().filter_map(|c| code(c.code()).limit.map(|limit| (c.code(), limit))).collect();
    assert_eq!(limited, [(-1, 3), (2, 2), (35, 1), (97, 1)]);
    assert_eq!(code(30_000).limit, Some(3));
    assert_eq!(code(30_000).verdict, Verdict::RetryAfterBackoff);
}

#[test]
fn without_a_producer_id_some_are_judged_differently() {
    let different: Vec<i16> = ErrorCode::ALL
        .iter()
        .filter(|code| of(Attempt::Answered(**code), true) != of(Attempt::Answered(**code), false))
        .map(|code| code.code())
        .collect();
    assert_eq!(different, [-1, 45, 47, 59]);
    for number in different {
        let ruling = of(Attempt::Answered(ErrorCode::from(number)), false);
        assert_eq!(ruling.verdict, Verdict::Drop, "{number}");
        assert_eq!(ruling.special, Special::None, "{number}");
    }
}

/// What the seed and the design name, word for word.
#[test]
fn the_classes_that_were_promised() {
    use Verdict::*;
    for (verdict, numbers) in [
        (RetryAfterRefresh, vec![3, 6, 8, 9, 56, 72, 74, 100, 103]),
        (RetryAfterBackoff, vec![-1, 2, 5, 7, 13, 19, 20, 75, 89]),
        (Drop, vec![10, 17, 18, 21, 29, 31, 32, 42, 43, 44, 76, 87, 90]),
    ] {
        for number in numbers {
            assert_eq!(code(number).verdict, verdict, "{number}");
        }
    }
    for attempt in
        [Attempt::Disconnected, Attempt::TimedOut, Attempt::Answered(ErrorCode::LeaderNotAvailable)]
    {
        assert!(of(attempt, true).refresh);
        assert_eq!(of(attempt, true).verdict, RetryAfterBackoff);
    }
    for code in ErrorCode::ALL {
        let ruling = of(Attempt::Answered(*code), true);
        assert!(ruling.verdict != RetryAfterRefresh || ruling.refresh, "{code}");
        assert!(!ruling.reason.is_empty() && !ruling.reason.contains('|'), "{code}");
    }
}

#[test]
fn users_override_classes_but_not_facts() {
    for (class, verdict) in [
        (Class::Drop, Verdict::Drop),
        (Class::RetryAfterRefresh, Verdict::RetryAfterRefresh),
        (Class::RetryAfterBackoff, Verdict::RetryAfterBackoff),
    ] {
        let all: HashMap<ErrorCode, Class> = ErrorCode::ALL.iter().map(|code| (*code, class)).collect();
        for idempotent in [true, false] {
            for &code in ErrorCode::ALL {
                let attempt = Attempt::Answered(code);
                let ours = of(attempt, idempotent);
                let theirs = classify(attempt, idempotent, Acks::All, &all);
                if matches!(code.code(), 0 | 46) {
                    assert_eq!(theirs, ours);
                    continue;
                }
                assert_eq!(theirs.verdict, verdict);
                assert_eq!(theirs.ambiguous, ours.ambiguous);
                assert_eq!((theirs.special, theirs.limit), (Special::None, None));
                assert_eq!(theirs.counted, verdict != Verdict::Drop);
                assert_eq!(theirs.refresh, verdict == Verdict::RetryAfterRefresh);
            }
        }
        // One code's class says nothing of another, nor of attempts without an answer.
        let one = HashMap::from([(ErrorCode::NetworkException, class)]);
        assert_eq!(classify(Attempt::Disconnected, true, Acks::All, &one), of(Attempt::Disconnected, true));
        assert_eq!(classify(Attempt::Answered(ErrorCode::RequestTimedOut), true, Acks::All, &one), code(7));
        // An offset in the refusal stays a fact.
        let one = HashMap::from([(ErrorCode::NotLeaderOrFollower, class)]);
        let attempt = Attempt::answered(ErrorCode::NotLeaderOrFollower, 5);
        assert!(classify(attempt, true, Acks::All, &one).ambiguous);
    }
    let unknown = HashMap::from([(ErrorCode::Unknown(500), Class::Drop)]);
    let ruling = classify(Attempt::Answered(ErrorCode::from(500)), true, Acks::All, &unknown);
    assert_eq!((ruling.verdict, ruling.ambiguous), (Verdict::Drop, true));
}
