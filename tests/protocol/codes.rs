//! The error codes against the other implementation's table.

use kafka_protocol::error::ResponseError;
use std::collections::HashSet;
use steadfast::ErrorCode;

/// The codes that are newer than the other implementation, as Kafka 4.4 names them.
const NEWER: [(i16, &str); 3] = [
    (134, "GROUP_DELETION_FAILED"),
    (135, "STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED"),
    (136, "CONTROLLER_ID_NOT_REGISTERED"),
];

/// `NotLeaderOrFollower` as `NOT_LEADER_OR_FOLLOWER`.
fn screaming(name: &str) -> String {
    let mut out = String::new();
    for character in name.chars() {
        if character.is_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.push(character.to_ascii_uppercase());
    }
    out
}

#[test]
fn names_and_numbers_are_kafkas() {
    let mut different = Vec::new();
    for number in -1..=133 {
        let code = ErrorCode::from(number);
        assert_eq!(code.code(), number);
        match ResponseError::try_from_code(number) {
            None => assert_eq!(code, ErrorCode::None),
            Some(theirs) => {
                let theirs = screaming(&format!("{theirs:?}"));
                if theirs != code.name() {
                    different.push((number, theirs, code.name()));
                }
            }
        }
    }
    assert!(different.is_empty(), "{different:?}");
    for (number, name) in NEWER {
        assert_eq!(ErrorCode::from(number).name(), name);
    }
}

#[test]
fn all_is_all_in_order() {
    let numbers: Vec<i16> = ErrorCode::ALL.iter().map(|code| code.code()).collect();
    assert_eq!(numbers, (-1..=136).collect::<Vec<i16>>());
    let names: HashSet<&str> = ErrorCode::ALL.iter().map(|code| code.name()).collect();
    assert_eq!(names.len(), ErrorCode::ALL.len(), "a name is there twice");
    for code in ErrorCode::ALL {
        assert!(!code.description().is_empty());
        assert_eq!(screaming(&format!("{code:?}")), code.name());
    }
}

#[test]
fn a_code_from_the_future_keeps_its_number() {
    for number in [i16::MIN, -2, 137, 999, i16::MAX] {
        let code = ErrorCode::from(number);
        assert_eq!(code, ErrorCode::Unknown(number));
        assert_eq!(code.to_string(), format!("UNKNOWN ({number})"));
    }
    assert_eq!(ErrorCode::from(6).to_string(), "NOT_LEADER_OR_FOLLOWER (6)");
}

#[test]
fn advice_gets_into_the_error_that_people_read() {
    let refused = |number| {
        let code = ErrorCode::from(number);
        steadfast::Cause::Refused { code, message: None, broker: 3 }.to_string()
    };
    assert_eq!(refused(42), "broker 3 refused it: INVALID_REQUEST (42)");
    assert!(refused(10)
        .ends_with(": send smaller messages, compress them, or raise max.message.bytes of the topic"));
    assert!(refused(31).contains("enable.idempotence=false"));
}
