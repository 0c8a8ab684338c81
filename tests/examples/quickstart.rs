use crate::support::{example, run};

/// With fewer messages than the README's, and the same faults.
#[test]
fn nothing_is_lost_doubled_or_reordered() {
    let mut command = example("quickstart");
    command.args(["--messages", "60000"]);
    let ended = run(command, b"");
    assert_eq!(ended.code(), Some(0), "{ended:?}");
    let retries = ended.last_line().strip_prefix("delivered=60000 lost=0 duplicated=0 reordered=0 retries=");
    let retries: u64 = retries.and_then(|n| n.parse().ok()).unwrap_or_else(|| panic!("{ended:?}"));
    assert!(retries > 0);
}
