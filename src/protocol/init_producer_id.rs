//! InitProducerId 0 to 5: the identity that idempotence needs.

use super::error_code::ErrorCode;
use super::frame::Frame;
use super::header::{request, Api};
use super::wire::{put_i16, put_i32, put_i64, put_no_tags, put_null_string, Malformed, Reader};

/// A broker's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InitProducerId {
    pub throttle_ms: i32,
    pub error: ErrorCode,
    /// Not negative where `error` is none.
    pub producer_id: i64,
    /// Not negative where `error` is none.
    pub epoch: i16,
}

/// `producer_id` and `epoch`: the ones in use, to get the next epoch (version 3 and later; -1 and -1 for a new id).
pub fn encode(version: i16, correlation: i32, client_id: &str, producer_id: i64, epoch: i16) -> Frame {
    let mut frame = request(Api::InitProducerId, version, correlation, client_id, 24);
    let flexible = Api::InitProducerId.is_flexible(version);
    let out = frame.framing();
    put_null_string(out, flexible); // no transactions
    put_i32(out, i32::MAX); // their timeout
    if version >= 3 {
        put_i64(out, producer_id);
        put_i16(out, epoch);
    }
    put_no_tags(out, flexible);
    frame.finish()
}

pub fn decode(body: &[u8], version: i16) -> Result<InitProducerId, Malformed> {
    let mut reader = Reader::new(body, Api::InitProducerId.is_flexible(version));
    let throttle_ms = reader.i32("throttle time")?;
    let error = ErrorCode::from(reader.i16("error code")?);
    let producer_id = reader.i64("producer id")?;
    let epoch = reader.i16("producer epoch")?;
    reader.skip_tags()?;
    reader.end("InitProducerId response")?;
    if error == ErrorCode::None && (producer_id < 0 || epoch < 0) {
        return Err(Malformed(format!("granted the producer id {producer_id} with epoch {epoch}")));
    }
    Ok(InitProducerId { throttle_ms, error, producer_id, epoch })
}
