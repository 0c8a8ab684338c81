//! What the tests share: the other implementation's half of a conversation.

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::{RequestHeader, ResponseHeader};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, StrBytes};
use steadfast::internal::protocol::frame::Frame;
use steadfast::internal::protocol::header::Api;

/// What the other side makes of a request: header and body. Panics where it does not understand it, or not all of it.
pub(crate) fn read_request<Request: Decodable + HeaderVersion>(
    frame: &Frame,
    version: i16,
) -> (RequestHeader, Request) {
    let bytes = frame.to_vec();
    assert_eq!(bytes.len(), frame.len());
    let (length, rest) = bytes.split_first_chunk::<4>().expect("a length");
    assert_eq!(i32::from_be_bytes(*length) as usize, rest.len(), "the frame's length");
    let mut rest = Bytes::copy_from_slice(rest);
    let header = RequestHeader::decode(&mut rest, Request::header_version(version)).expect("header");
    let request = Request::decode(&mut rest, version).expect("request");
    assert!(rest.is_empty(), "{} bytes behind the request", rest.len());
    (header, request)
}

/// A response as the other side sends it, without its length.
pub(crate) fn write_response<Response: Encodable + HeaderVersion>(
    correlation: i32,
    response: &Response,
    version: i16,
) -> Vec<u8> {
    let mut out = BytesMut::new();
    let header = ResponseHeader::default().with_correlation_id(correlation);
    header.encode(&mut out, Response::header_version(version)).expect("header");
    response.encode(&mut out, version).expect("response");
    out.to_vec()
}

pub(crate) fn versions(api: Api) -> impl Iterator<Item = i16> {
    let (first, last) = api.supported();
    first..=last
}

pub(crate) fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

pub(crate) mod any {
    //! Values for the protocol's fields, the odd ones included.

    use proptest::prelude::*;

    /// Strings from empty to longer than a varint byte counts, with characters of several bytes.
    pub(crate) fn string() -> impl Strategy<Value = String> {
        prop_oneof![
            Just(String::new()),
            "[a-zA-Z0-9._-]{1,20}",
            "[a-z\u{e4}\u{20ac}\u{1f980}]{1,6}",
            "[a-z]{120,300}"
        ]
    }

    pub(crate) fn bytes(longest: usize) -> impl Strategy<Value = Vec<u8>> {
        prop_oneof![
            1 => Just(Vec::new()),
            4 => prop::collection::vec(any::<u8>(), 0..40),
            1 => prop::collection::vec(any::<u8>(), 0..longest),
        ]
    }

    pub(crate) fn ids() -> impl Strategy<Value = Vec<i32>> {
        prop::collection::vec(any::<i32>(), 0..5)
    }
}
