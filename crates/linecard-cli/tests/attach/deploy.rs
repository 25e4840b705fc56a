//! Every byte arrives, in every deployment of threads.
//!
//! Where workers have rings, these are long enough for all buffers: packets that a full one drops would be sent again.

use crate::bytes::{Transfer, Way};
use crate::command::{attach, count, drops};
use crate::lab::with_queues;

/// Several connections both ways.
fn transfers(queues: u32, arguments: &str) {
    with_queues(arguments, queues, |lab| {
        let (running, mut again) = (attach(lab, arguments), 0);
        for way in [Way::In, Way::Out] {
            let transfer = Transfer { connections: 4, ..Transfer::new(way, 8 << 20) };
            let went = transfer.run(lab);
            println!("{arguments}, {way:?}: {went:?}");
            again += went.again;
        }
        let account = running.finish();
        let lost = [drops(&account, "near"), drops(&account, "far")];
        println!("lost: {lost:?}, by the cable {}", lab.lost());
        let is_lost = lost != [[0; 2]; 2] || lab.lost() > 0;
        // Before a packet socket a veth passes frames by a queue for each core, out of order where a
        // sender changes cores: TCP takes that for a loss.
        let is_reordered = arguments.starts_with("packet");
        assert!(
            again == 0 || is_lost || is_reordered,
            "{again} segments were sent again: {account:#}"
        );
        assert!(count(&account, "merging", "merged") > 1_000, "{account:#}");
        assert!(count(&account, "near", "cut") > 0, "{account:#}");
    });
}

#[test]
fn one_thread_for_the_ports_and_two_workers() {
    transfers(1, "xdp:lcw tap:lc0 --deployment shared --workers 2 --ring 16384");
}

/// Promise (Live interfaces): A TCP transfer passes an attachment completely with a thread for each
/// port and two workers; further tests use inline and shared threads.
#[test]
fn a_thread_for_each_port_and_two_workers() {
    transfers(1, "xdp:lcw tap:lc0 --deployment dedicated --workers 2 --ring 16384");
}

#[test]
fn two_workers_with_a_queue_each() {
    transfers(2, "xdp:lcw tap:lc0 --workers 2");
}

#[test]
fn one_worker_with_all_queues() {
    transfers(3, "xdp:lcw tap:lc0");
}

#[test]
fn as_many_workers_as_queues() {
    transfers(2, "xdp:lcw tap:lc0 --workers 0");
}

#[test]
fn two_packet_sockets_of_a_fanout() {
    transfers(1, "packet:lcw tap:lc0 --workers 2");
}

#[test]
fn packet_sockets_with_dedicated_threads() {
    transfers(1, "packet:lcw tap:lc0 --deployment dedicated --workers 2 --ring 16384");
}
