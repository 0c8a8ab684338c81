//! Ports that a broker can have again after a restart, though other processes start brokers at the same time.

use nix::fcntl::{Flock, FlockArg};
use std::fs::File;
use std::net::TcpListener;

/// A port that is ours while this lives. The port is below the range from which systems take the near end of outgoing
/// connections, so no client can sit on it while its broker restarts.
pub struct Port {
    pub number: u16,
    _claim: Flock<File>,
}

/// Claims a port that nobody listens on.
pub fn claim() -> Port {
    let folder = std::env::temp_dir().join("steadfast-test-ports");
    std::fs::create_dir_all(&folder).expect("a folder for claims on ports");
    // Processes begin at different places, so that they seldom meet.
    let begin = std::process::id().wrapping_mul(7919) % 12_000;
    for step in 0..12_000 {
        let number = u16::try_from(18_000 + (begin + step) % 12_000).expect("below 30,000");
        let file = File::create(folder.join(number.to_string())).expect("a file for the claim on a port");
        let Ok(claim) = Flock::lock(file, FlockArg::LockExclusiveNonblock) else { continue };
        if TcpListener::bind(("127.0.0.1", number)).is_ok() {
            return Port { number, _claim: claim };
        }
    }
    panic!("no free port between 18,000 and 30,000");
}
