//! Agreeing on versions.

use crate::oracle::write_response;
use kafka_protocol::messages::api_versions_response::ApiVersion;
use kafka_protocol::messages::ApiVersionsResponse;
use steadfast::internal::protocol::api_versions::{decode, ApiVersions, Versions};
use steadfast::internal::protocol::header::{split_response, Api};
use steadfast::ErrorCode;

fn offering(ranges: &[(i16, i16, i16)]) -> Result<Versions, String> {
    Versions::agree(&ApiVersions { error: ErrorCode::None, ranges: ranges.to_vec(), throttle_ms: 0 })
}

#[test]
fn the_newest_that_both_speak() {
    // Kafka 4.4, 0.11 and 2.8: Produce, Metadata, InitProducerId.
    for (ranges, expected) in [
        (&[(0, 0, 13), (3, 0, 13), (22, 0, 6)], (13, 13, Some(5))),
        (&[(0, 0, 3), (3, 0, 4), (22, 0, 0)], (3, 4, Some(0))),
        (&[(22, 0, 4), (3, 0, 11), (0, 0, 9)], (9, 11, Some(4))),
        (&[(0, 12, 40), (3, 13, 99), (22, 5, 9)], (13, 13, Some(5))),
    ] {
        let versions = offering(ranges).unwrap();
        assert_eq!((versions.produce(), versions.metadata(), versions.init_producer_id()), expected);
    }
    assert_eq!(offering(&[(0, 3, 9), (3, 0, 9)]).unwrap().init_producer_id(), None);
    assert_eq!(offering(&[(0, 3, 9), (3, 0, 9), (22, 6, 7)]).unwrap().init_producer_id(), None);
}

#[test]
fn a_broker_that_cant_be_used_is_told_in_words() {
    let too_old = offering(&[(0, 0, 2), (3, 0, 2), (18, 0, 0)]).unwrap_err();
    assert!(too_old.contains("Produce only up to version 2") && too_old.contains("Kafka 0.11"), "{too_old}");
    let too_new = offering(&[(0, 14, 20), (3, 0, 13)]).unwrap_err();
    assert!(too_new.contains("Produce 14 to 20") && too_new.contains("3 to 13"), "{too_new}");
    let controller = offering(&[(18, 0, 4), (52, 0, 1)]).unwrap_err();
    assert!(controller.contains("controller"), "{controller}");
    // An empty range, as a broken broker might name it.
    assert!(offering(&[(0, 9, 5), (3, 0, 13)]).is_err());
    assert!(offering(&[(0, -5, -1), (3, i16::MIN, i16::MAX)]).is_err());
}

/// Whatever version was asked for: a broker that doesn't speak it answers in version 0 and names what it speaks.
#[test]
fn an_unsupported_version_is_answered_in_the_first_one() {
    let keys = vec![ApiVersion::default().with_api_key(18).with_max_version(2)];
    let theirs = ApiVersionsResponse::default().with_error_code(35).with_api_keys(keys);
    let frame = write_response(9, &theirs, 0);
    for asked in 0..=4 {
        let (number, body) = split_response(Api::ApiVersions, asked, &frame).unwrap();
        let ours = decode(body, asked).unwrap();
        assert_eq!((number, ours.error), (9, ErrorCode::UnsupportedVersion));
        assert_eq!(ours.ranges, [(18, 0, 2)]);
    }
}
