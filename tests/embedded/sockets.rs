//! The cluster on its sockets: crashes, hangs, delays, and an end that leaves nothing behind.

use super::client::{batch, metadata, produce, Connection};
use kafka_protocol::messages::{ApiVersionsRequest, MetadataRequest, ProduceRequest};
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};
use steadfast::testing::{Cluster, Fault, On, Times, TopicSpec, Versions};

fn cluster() -> Cluster {
    Cluster::builder().topic(("t", 1)).start().expect("a cluster")
}

#[test]
fn a_client_finds_its_way_and_the_log_reads_back() {
    let cluster = cluster();
    let address = cluster.bootstrap().split(',').next().expect("three").parse().expect("an address");
    let mut connection = Connection::open(address);
    let versions = connection.call(&ApiVersionsRequest::default(), 0).expect("an answer");
    assert!(versions.api_keys.iter().any(|range| range.api_key == 0 && range.max_version == 13));
    let view = connection.call(&metadata(&["t"], false), 9).expect("an answer");
    let leader = view.topics[0].partitions[0].leader_id;
    let found = view.brokers.iter().find(|broker| broker.node_id == leader).expect("listed");
    assert_eq!(found.port, i32::from(cluster.address(leader.0).port()));
    let mut leader = Connection::open(cluster.address(leader.0));
    assert_eq!(leader.produce(&batch(3)), Some((0, 0)));
    assert_eq!(leader.produce(&batch(2)), Some((0, 3)));
    let messages = cluster.messages("t");
    assert_eq!(messages.iter().map(|message| message.offset).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    assert_eq!(messages[4].value.as_deref(), Some(&b"value"[..]));
    assert_eq!((cluster.appended(), cluster.end_offset("t", 0)), (5, 5));
    let requests = cluster.requests();
    assert_eq!(
        (requests.produce, requests.metadata, requests.api_versions, requests.connections),
        (2, 1, 1, 2)
    );
    assert_eq!(cluster.violations(), [""; 0]);
}

#[test]
fn a_crash_closes_and_refuses_and_a_restart_is_on_the_old_port() {
    let cluster = cluster();
    let address = cluster.address(1);
    let mut connection = Connection::open(address);
    assert_eq!(connection.produce(&batch(1)), Some((0, 0)));
    cluster.crash(1);
    assert_eq!(connection.frame(), None);
    assert_eq!(TcpStream::connect(address).map_err(|e| e.kind()).err(), Some(ErrorKind::ConnectionRefused));
    let leader = cluster.leader("t", 0).expect("another one");
    assert_ne!(leader, 1);
    assert_eq!(Connection::open(cluster.address(leader)).produce(&batch(1)), Some((0, 1)));
    cluster.restart(1).expect("its port is kept");
    assert_eq!(Connection::open(address).produce(&batch(1)).expect("an answer").0, 6);
    cluster.move_leader("t", 0, 1);
    assert_eq!(Connection::open(address).produce(&batch(1)), Some((0, 2)));
}

#[test]
fn a_hung_broker_accepts_and_answers_only_when_it_goes_on() {
    let cluster = cluster();
    let mut before = Connection::open(cluster.address(1));
    assert_eq!(before.produce(&batch(1)), Some((0, 0)));
    cluster.hang(1);
    let mut during = Connection::open(cluster.address(1));
    for connection in [&mut before, &mut during] {
        connection.send(&produce("t", 0, batch(1).encode(), -1), 9);
        connection.socket.set_read_timeout(Some(Duration::from_millis(50))).expect("a timeout");
        let silence = connection.socket.read(&mut [0; 1]).map_err(|e| e.kind());
        assert_eq!(silence, Err(ErrorKind::WouldBlock));
        connection.socket.set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
    }
    assert_eq!(cluster.end_offset("t", 0), 1);
    cluster.resume(1);
    for connection in [&mut before, &mut during] {
        assert!(connection.receive::<ProduceRequest>(9).is_some());
    }
    assert_eq!(cluster.end_offset("t", 0), 3);
}

#[test]
fn a_late_request_is_taken_up_after_its_connection_is_gone() {
    let cluster = cluster();
    cluster.fault(On::partition("t", 0), Times::Once, Fault::late(Duration::from_millis(100)));
    let mut connection = Connection::open(cluster.address(1));
    connection.send(&produce("t", 0, batch(1).encode(), -1), 9);
    while cluster.requests().produce == 0 {
        std::thread::yield_now();
    }
    drop(connection);
    let deadline = Instant::now() + Duration::from_secs(10);
    while cluster.end_offset("t", 0) == 0 {
        assert!(Instant::now() < deadline, "never taken up");
        std::thread::yield_now();
    }
}

#[test]
fn throttled_connections_wait_for_their_next_request() {
    let cluster = cluster();
    let quiet = Duration::from_millis(150);
    cluster.throttle(1, quiet);
    let mut connection = Connection::open(cluster.address(1));
    let start = Instant::now();
    assert_eq!(connection.produce(&batch(1)), Some((0, 0)));
    cluster.throttle(1, Duration::ZERO);
    assert_eq!(connection.produce(&batch(1)), Some((0, 1)));
    assert!(start.elapsed() >= quiet, "{:?}", start.elapsed());
}

#[test]
fn a_closed_connection_is_the_end_of_a_fault_that_says_so() {
    let cluster = cluster();
    cluster.fault(On::partition("t", 0), Times::Once, Fault::close_before());
    cluster.fault(On::partition("t", 0), Times::Once, Fault::close_after());
    assert_eq!(Connection::open(cluster.address(1)).produce(&batch(1)), None);
    assert_eq!(cluster.end_offset("t", 0), 0);
    assert_eq!(Connection::open(cluster.address(1)).produce(&batch(1)), None);
    assert_eq!(cluster.end_offset("t", 0), 1);
}

#[test]
fn topics_come_into_being_when_asked_for_where_that_is_allowed() {
    let cluster =
        Cluster::builder().auto_create(TopicSpec::new("").partitions(4)).start().expect("a cluster");
    let mut connection = Connection::open(cluster.address(2));
    let code = |view: kafka_protocol::messages::MetadataResponse| {
        (view.topics[0].error_code, view.topics[0].partitions.len())
    };
    let ask = |connection: &mut Connection, create| {
        code(connection.call::<MetadataRequest>(&metadata(&["new"], create), 9).expect("an answer"))
    };
    assert_eq!(ask(&mut connection, false), (3, 0));
    assert_eq!(ask(&mut connection, false), (3, 0));
    assert_eq!(ask(&mut connection, true), (3, 0));
    assert_eq!(ask(&mut connection, true), (0, 4));
}

#[test]
fn garbage_is_closed_on_and_remembered() {
    let cluster = cluster();
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0, 0, 0, 10, 0, 77, 0, 0, 0, 0, 0, 0, 0, 0], &[255; 4]]
    {
        let mut connection = Connection::open(cluster.address(1));
        connection.socket.write_all(garbage).expect("written");
        assert_eq!(connection.frame(), None);
    }
    assert_eq!(cluster.violations().len(), 3, "{:?}", cluster.violations());
}

#[test]
fn an_upgrade_closes_the_connections_and_offers_something_else() {
    let cluster = cluster();
    let mut connection = Connection::open(cluster.address(1));
    assert_eq!(connection.produce(&batch(1)), Some((0, 0)));
    cluster.set_versions(1, Versions::kafka_0_11());
    assert_eq!(connection.frame(), None);
    let mut connection = Connection::open(cluster.address(1));
    let offered = connection.call(&ApiVersionsRequest::default(), 0).expect("an answer");
    let produce = offered.api_keys.iter().find(|range| range.api_key == 0).expect("listed");
    assert_eq!(produce.max_version, 3);
    assert_eq!(connection.produce(&batch(1)), None, "v9 is not offered");
}

#[test]
fn dropping_it_ends_every_thread_and_frees_the_ports() {
    let cluster = cluster();
    let address = cluster.address(1);
    let mut waiting = Vec::new();
    // One that idles, one that hangs, one whose answer is an hour away, one that is frozen.
    cluster.hang(2);
    cluster.fault(On::partition("t", 0), Times::Once, Fault::delay(Duration::from_secs(3600)));
    cluster.fault(On::partition("t", 0), Times::Once, Fault::swallow());
    for (broker, sends) in [(1, false), (2, true), (1, true), (1, true)] {
        let mut connection = Connection::open(cluster.address(broker));
        if sends {
            connection.send(&produce("t", 0, batch(1).encode(), -1), 9);
        }
        waiting.push(connection);
    }
    while cluster.requests().produce < 2 {
        std::thread::yield_now();
    }
    let start = Instant::now();
    drop(cluster);
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
    for connection in &mut waiting {
        assert_eq!(connection.frame(), None);
    }
    assert!(TcpStream::connect(address).is_err());
}
