//! The far end of a remote sender: sends streams to one target, as the near end asks.

use super::message::{Clock, MAX_LINE, Message, Ready, Request, VERSION};
use crate::linux::clock::Wait;
use crate::linux::generator::{Departures, Generator, GeneratorConfig, GeneratorError};
use crate::linux::session::CoreAssignment;
use crate::linux::trace::this_thread;
use linecard_io::placement::Placement;
use rustix::thread::sched_getaffinity;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvError, SyncSender, sync_channel};
use std::thread;

/// Messages that wait at most: the near end sends the next one after an answer.
const WAITING: usize = 4;
/// Send times in one write.
const CHUNK: usize = 8_192;

/// Why the far end gives up.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The near end says something else.
    #[error(
        "\"{line}\" on standard input is no message of `linecard jitter run --remote-sender`, which \
         starts this command"
    )]
    Unknown {
        /// The line.
        line: String,
    },
    /// The near end does not take an answer.
    #[error("cannot answer on standard output: {0}")]
    Output(#[from] io::Error),
}

/// Sends streams to `target` as the lines of `input` ask, until that ends. A stream in progress is stopped by its end,
/// too, so that nothing is sent after the near end has gone.
///
/// # Errors
///
/// See [`ServeError`]. A stream that cannot be sent is reported to the near end, and does not end this one.
pub fn serve(
    target: SocketAddr,
    input: impl Read + Send + 'static,
    output: &mut impl Write,
) -> Result<(), ServeError> {
    let stop = Arc::new(AtomicBool::new(false));
    let (sender, messages) = sync_channel(WAITING);
    let reader = Arc::clone(&stop);
    // It ends with the process if the near end never does: it cannot be woken from reading.
    thread::spawn(move || read(input, &sender, &reader));
    say(output, &Message::Hello { version: VERSION, clock: Clock::of_this_process() })?;
    loop {
        match messages.recv() {
            Ok(Ok(Message::Stream(request))) => {
                stream(target, &request, (&messages, &stop), output)?;
            }
            // The stream before it has ended already.
            Ok(Ok(Message::Stop)) => stop.store(false, Ordering::Relaxed),
            Ok(Ok(other)) => return Err(unknown(&other.line())),
            Ok(Err(line)) => return Err(unknown(&line)),
            Err(RecvError) => return Ok(()),
        }
    }
}

fn unknown(line: &str) -> ServeError {
    ServeError::Unknown { line: line.trim_end().chars().take(80).collect() }
}

/// Reads messages until the end, and stops the stream in progress for a stop and for the end.
fn read(input: impl Read, messages: &SyncSender<Result<Message, String>>, stop: &AtomicBool) {
    let mut input = BufReader::new(input);
    loop {
        let mut line = String::new();
        let read = input.by_ref().take(MAX_LINE as u64).read_line(&mut line);
        if read.is_err() || line.is_empty() {
            break;
        }
        let message = Message::read(&line);
        if message == Some(Message::Stop) {
            stop.store(true, Ordering::Relaxed);
        }
        if messages.send(message.ok_or(line)).is_err() {
            break;
        }
    }
    stop.store(true, Ordering::Relaxed);
}

fn say(output: &mut impl Write, message: &Message) -> io::Result<()> {
    output.write_all(message.line().as_bytes())?;
    output.flush()
}

/// One stream, from its request to its record.
fn stream(
    target: SocketAddr,
    request: &Request,
    (messages, stop): (&Receiver<Result<Message, String>>, &AtomicBool),
    output: &mut impl Write,
) -> Result<(), ServeError> {
    let (config, ready) = planned(target, request);
    let opened = introduce(target).and_then(|()| Generator::open(config));
    let generator = match opened {
        Ok(generator) => generator,
        Err(error) => return Ok(say(output, &Message::Refused(error.to_string()))?),
    };
    say(output, &Message::Ready(ready))?;
    match messages.recv() {
        Ok(Ok(Message::Go)) => {}
        // The near end gave up in between.
        Ok(Ok(Message::Stop)) | Err(RecvError) => {
            stop.store(false, Ordering::Relaxed);
            return Ok(());
        }
        Ok(Ok(other)) => return Err(unknown(&other.line())),
        Ok(Err(line)) => return Err(unknown(&line)),
    }
    let departures = match generator.run(stop) {
        Ok(departures) => departures,
        Err(error) => return Ok(say(output, &Message::Refused(error.to_string()))?),
    };
    report(departures, output)?;
    // A stop was for this stream only; the end of the input ends the next receive.
    stop.store(false, Ordering::Relaxed);
    Ok(())
}

/// The stream as this host can send it.
fn planned(target: SocketAddr, request: &Request) -> (GeneratorConfig, Ready) {
    let core = request.core.unwrap_or_else(|| CoreAssignment::of_this_host().generator);
    // On the only core, a sender that never sleeps would keep the near end's messages from being read.
    let is_alone = sched_getaffinity(None).is_ok_and(|set| set.count() == 1);
    let is_sleeping = request.is_sleeping || is_alone;
    let with = |fifo| Placement { core: Some(core.into()), fifo, ..Placement::default() };
    let fifo = request.fifo.filter(|fifo| !is_alone && may_enter(with(Some(*fifo))));
    let mut config = GeneratorConfig::new(target);
    (config.period_ps, config.count) = (request.period_ps, request.count);
    config.payload_len = request.payload_len;
    config.wait = if is_sleeping { Wait::Sleep } else { Wait::Spin };
    config.placement = with(fifo);
    (config, Ready { thread: this_thread(), core, fifo, is_sleeping })
}

fn may_enter(placement: Placement) -> bool {
    thread::spawn(move || placement.enter(true).is_ok()).join().unwrap_or(false)
}

/// Has the kernel look up the target's hardware address before the stream.
fn introduce(target: SocketAddr) -> Result<(), GeneratorError> {
    let any: SocketAddr = if target.is_ipv4() { ([0; 4], 0).into() } else { ([0; 16], 0).into() };
    let connect = |source| GeneratorError::Connect { address: target, source };
    let socket = UdpSocket::bind(any).map_err(connect)?;
    socket.send_to(b"hello", target).map_err(connect)?;
    Ok(())
}

/// Sends the record: its line, and then each packet's time.
fn report(departures: Departures, output: &mut impl Write) -> io::Result<()> {
    let sent_ns = departures.sent_ns.clone();
    say(output, &Message::Sent(Box::new(departures), sent_ns.len() as u64))?;
    for chunk in sent_ns.chunks(CHUNK) {
        let bytes: Vec<u8> = chunk.iter().flat_map(|at_ns| at_ns.to_le_bytes()).collect();
        output.write_all(&bytes)?;
    }
    output.flush()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    /// A far end on a thread, and this end of its input and output.
    fn far(target: SocketAddr) -> (UnixStream, thread::JoinHandle<Result<(), ServeError>>) {
        let (near, far) = UnixStream::pair().unwrap();
        near.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let mut output = far.try_clone().unwrap();
        (near, thread::spawn(move || serve(target, far, &mut output)))
    }

    fn line(near: &mut impl BufRead) -> Message {
        let mut line = String::new();
        near.read_line(&mut line).unwrap();
        Message::read(&line).unwrap_or_else(|| panic!("{line}"))
    }

    fn request(count: u64) -> Message {
        Message::Stream(Request {
            period_ps: 1_000_000_000,
            count,
            payload_len: 64,
            is_sleeping: true,
            core: None,
            fifo: None,
        })
    }

    #[test]
    fn streams_are_sent_one_after_the_other_and_stopped() {
        let sink = UdpSocket::bind("127.0.0.1:0").unwrap();
        let (mut near, far) = far(sink.local_addr().unwrap());
        let mut input = BufReader::new(near.try_clone().unwrap());
        assert!(matches!(line(&mut input), Message::Hello { version: VERSION, .. }));
        for (count, is_stopped) in [(5, false), (1_000_000, true), (7, false)] {
            say(&mut near, &request(count)).unwrap();
            let Message::Ready(ready) = line(&mut input) else { panic!("not ready") };
            assert!(ready.is_sleeping && ready.fifo.is_none());
            say(&mut near, &Message::Go).unwrap();
            if is_stopped {
                say(&mut near, &Message::Stop).unwrap();
            }
            let Message::Sent(departures, packets) = line(&mut input) else { panic!("not sent") };
            assert_eq!(packets == count, !is_stopped, "{packets}");
            let mut times = vec![0; packets as usize * 8];
            input.read_exact(&mut times).unwrap();
            let times = times.as_chunks().0.iter().map(|time| u64::from_le_bytes(*time));
            assert!(times.clone().all(|at_ns| at_ns >= departures.schedule.start_ns));
            assert!(times.is_sorted());
        }
        near.shutdown(std::net::Shutdown::Both).unwrap();
        far.join().unwrap().unwrap();
    }

    #[test]
    fn nothing_is_sent_after_the_end_of_the_input() {
        let sink = UdpSocket::bind("127.0.0.1:0").unwrap();
        let (mut near, far) = far(sink.local_addr().unwrap());
        let mut input = BufReader::new(near.try_clone().unwrap());
        line(&mut input);
        say(&mut near, &request(u64::from(u32::MAX) / 100)).unwrap();
        line(&mut input);
        say(&mut near, &Message::Go).unwrap();
        let mut packet = [0; 2_000];
        // The greeting, and a packet of the stream.
        assert_eq!(sink.recv(&mut packet).unwrap(), 5);
        assert_eq!(sink.recv(&mut packet).unwrap(), 64);
        drop((near, input));
        // Its record has no reader.
        assert!(matches!(far.join().unwrap(), Ok(()) | Err(ServeError::Output(_))));
        sink.set_nonblocking(true).unwrap();
        while sink.recv(&mut packet).is_ok() {}
        thread::sleep(Duration::from_millis(20));
        assert!(sink.recv(&mut packet).is_err());
    }

    #[test]
    fn what_cannot_be_sent_is_said_to_the_other_end() {
        let sink = UdpSocket::bind("127.0.0.1:0").unwrap();
        let (mut near, far) = far(sink.local_addr().unwrap());
        let mut input = BufReader::new(near.try_clone().unwrap());
        line(&mut input);
        say(&mut near, &request(0)).unwrap();
        let Message::Refused(why) = line(&mut input) else { panic!("not refused") };
        assert!(why.contains("0 packets"), "{why}");
        // Still there.
        say(&mut near, &request(2)).unwrap();
        assert!(matches!(line(&mut input), Message::Ready(_)));
        near.write_all(b"now\n").unwrap();
        let error = far.join().unwrap().unwrap_err().to_string();
        assert!(error.starts_with("\"now\""), "{error}");
    }
}
