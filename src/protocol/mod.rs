//! Wire data only, no policy.
#![allow(missing_docs, unreachable_pub)] // shown to the crate's own tests only; `Codec` and `ErrorCode` have their docs

pub mod api_versions;
pub mod compression;
pub mod error_code;
pub mod frame;
pub mod header;
pub mod init_producer_id;
pub mod metadata;
pub mod produce;
pub mod record_batch;
pub mod varint;
pub mod wire;
