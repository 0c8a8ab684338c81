//! What tells a real producer from a toy: the whole of it, over TCP, in situations that it will meet.

#[path = "sharp/chunks.rs"]
mod chunks;
#[path = "sharp/endings.rs"]
mod endings;
#[path = "sharp/harness.rs"]
mod harness;
#[path = "sharp/hostile.rs"]
mod hostile;
#[allow(dead_code, unreachable_pub)] // other test binaries use more of it
#[path = "support/ledger.rs"]
mod ledger;
#[path = "sharp/outage.rs"]
mod outage;
#[path = "sharp/ready.rs"]
mod ready;
#[path = "sharp/sink.rs"]
mod sink;
#[path = "sharp/slow_sink.rs"]
mod slow_sink;
#[path = "sharp/storm.rs"]
mod storm;
#[path = "sharp/verdicts.rs"]
mod verdicts;

use peak_alloc::PeakAlloc;

/// Counts what is allocated.
#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;
