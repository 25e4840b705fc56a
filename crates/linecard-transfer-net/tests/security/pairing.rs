//! Two ends that authenticate by a short code, and attackers that try to guess it.

use super::relay::{Client, as_pairing_client, as_pairing_server};
use super::{Meeting, NAME, authorizing, listener, meet, met, soon};
use linecard_transfer_net::control::{Access, Control, ControlError, Policy, Trust};
use linecard_transfer_net::keys::{
    Authorized, Fingerprint, Identity, KeyError, KnownPeers, Pairing, PairingCode, Remember,
    Standing,
};
use std::fs;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;

/// Bytes of the first message of a pairing, and of the proof after it.
const FIRST: usize = 41;
const PROOF: usize = 40;

/// The keys that an end has recorded.
type Recorded = Arc<Mutex<Vec<Fingerprint>>>;

fn recording() -> (Recorded, Remember) {
    let recorded = Recorded::default();
    let list = Arc::clone(&recorded);
    let remember: Remember = Box::new(move |_, key| {
        list.lock().unwrap().push(key);
        Ok(())
    });
    (recorded, remember)
}

/// An end that trusts no key yet.
fn pairing(identity: &Identity, pairing: Pairing) -> Access {
    let trust = Trust::Authorized(Authorized::Only(Vec::new()));
    Access::Keys { identity: identity.clone(), trust, pairing: Some(pairing) }
}

/// A connecting end that types a code, with the receivers that it knows.
fn typing(identity: &Identity, text: &str, known: &Path) -> Access {
    let trust = Trust::Known(KnownPeers::load(known).unwrap(), Policy::Strict);
    let pairing = Some(Pairing::typed(code(text)));
    Access::Keys { identity: identity.clone(), trust, pairing }
}

fn code(text: &str) -> PairingCode {
    text.parse().unwrap()
}

fn identities() -> [Identity; 2] {
    [(); 2].map(|()| Identity::generate().unwrap())
}

#[test]
fn a_code_makes_two_ends_know_each_other() {
    let [sender, receiver] = identities();
    let folder = tempfile::tempdir().unwrap();
    let known = folder.path().join("known_peers");
    let (at_receiver, shown) = recording();
    let connecting = typing(&sender, "4821-6093", &known);
    let accepting = pairing(&receiver, Pairing::shown(code("4821-6093"), shown));
    let (connected, accepted) = met(&connecting, &accepting);
    assert_eq!(connected.peer(), Some(receiver.fingerprint()));
    assert_eq!(accepted.peer(), Some(sender.fingerprint()));
    let standing = KnownPeers::load(&known).unwrap().standing(NAME, receiver.fingerprint());
    assert_eq!(standing, Standing::Known);
    assert_eq!(*at_receiver.lock().unwrap(), [sender.fingerprint()]);
    // Once only, also with the right code.
    let (connected, accepted) = meet(&connecting, &accepting);
    assert!(matches!(connected, Err(ControlError::CodeEnded)), "{connected:?}");
    assert!(matches!(accepted, Err(ControlError::VoidCode)), "{accepted:?}");
    assert_eq!(at_receiver.lock().unwrap().len(), 1);
}

#[test]
fn three_wrong_codes_end_the_right_one() {
    let [sender, receiver] = identities();
    let (at_receiver, shown) = recording();
    let accepting = pairing(&receiver, Pairing::shown(code("4821-6093"), shown));
    let try_code = |text| meet(&pairing(&sender, Pairing::typed(code(text))), &accepting);
    for (wrong, more) in [("0000-0000", 2), ("0000-0001", 1), ("0000-0002", 0)] {
        let (connected, accepted) = try_code(wrong);
        assert!(matches!(connected, Err(ControlError::OtherCode)), "{connected:?}");
        assert!(
            matches!(accepted, Err(ControlError::WrongCode { left }) if left == more),
            "{accepted:?}"
        );
    }
    let (connected, accepted) = try_code("4821-6093");
    assert!(matches!(connected, Err(ControlError::CodeEnded)), "{connected:?}");
    assert!(matches!(accepted, Err(ControlError::VoidCode)), "{accepted:?}");
    assert!(at_receiver.lock().unwrap().is_empty());
}

/// Many at once have no more attempts than one after the other.
#[test]
fn guesses_at_the_same_time_are_counted() {
    let [sender, receiver] = identities();
    let (at_receiver, shown) = recording();
    let accepting = pairing(&receiver, Pairing::shown(code("0000-0007"), shown));
    let connecting: Vec<_> = (0..12)
        .map(|guess| pairing(&sender, Pairing::typed(code(&format!("0000000{guess:02}")[1..]))))
        .collect();
    let results: Vec<_> = thread::scope(|scope| {
        let threads: Vec<_> =
            connecting.iter().map(|access| scope.spawn(|| meet(access, &accepting).1)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let wrong =
        results.iter().filter(|result| matches!(result, Err(ControlError::WrongCode { .. })));
    let wrong = wrong.count();
    let paired = at_receiver.lock().unwrap().len();
    assert!(wrong <= 3 && paired <= 1 && (wrong == 3 || paired == 1), "{wrong} {paired}");
}

/// An attacker without the code, up to its proof.
fn attacking(address: SocketAddr) -> Client {
    let mut attacker = as_pairing_client(address);
    let mut first = [0; FIRST];
    attacker.read_exact(&mut first).unwrap();
    // A point of the group as good as any other.
    first[8] = 0x41;
    attacker.write_all(&first).unwrap();
    attacker
}

/// The connecting end proves the code first, so that an end that leaves before has found out nothing.
#[test]
fn an_attacker_without_a_proof_gets_none() {
    let [_, receiver] = identities();
    let (_, shown) = recording();
    let accepting = pairing(&receiver, Pairing::shown(code("4821-6093"), shown));
    let (listener, address) = listener();
    thread::scope(|scope| {
        let accepted =
            scope.spawn(|| Control::accept(listener.accept().unwrap().0, &accepting, soon()));
        let mut attacker = attacking(address);
        attacker.sock.shutdown(std::net::Shutdown::Write).unwrap();
        let mut proof = Vec::new();
        let _end = attacker.read_to_end(&mut proof);
        assert!(proof.is_empty(), "{proof:?}");
        assert!(matches!(accepted.join().unwrap(), Err(ControlError::ClosedEarly)));
    });
}

/// Both ends type the same code, and an attacker in between takes part in both handshakes and forwards everything.
#[test]
fn proofs_of_a_code_cannot_be_passed_on() {
    let [sender, receiver] = identities();
    let folder = tempfile::tempdir().unwrap();
    let known = folder.path().join("known_peers");
    let (at_receiver, shown) = recording();
    let connecting = typing(&sender, "4821-6093", &known);
    let accepting = pairing(&receiver, Pairing::shown(code("4821-6093"), shown));
    let (receiving, receiver) = listener();
    let (between, relay) = listener();
    let (connected, accepted) = thread::scope(|scope| {
        let accepted =
            scope.spawn(|| Control::accept(receiving.accept().unwrap().0, &accepting, soon()));
        scope.spawn(|| {
            let mut left = as_pairing_server(between.accept().unwrap().0);
            let mut right = as_pairing_client(receiver);
            let (mut first, mut proof) = ([0; FIRST], [0; PROOF]);
            left.read_exact(&mut first).unwrap();
            right.write_all(&first).unwrap();
            right.read_exact(&mut first).unwrap();
            left.write_all(&first).unwrap();
            left.read_exact(&mut proof).unwrap();
            right.write_all(&proof).unwrap();
            right.read_exact(&mut proof).unwrap();
            left.write_all(&proof).unwrap();
            left.flush().unwrap();
            let _end = left.read(&mut proof);
        });
        let connected = Control::connect(relay, NAME, &connecting, soon());
        (connected, accepted.join().unwrap())
    });
    assert!(matches!(connected, Err(ControlError::OtherCode)), "{connected:?}");
    assert!(matches!(accepted, Err(ControlError::WrongCode { left: 2 })), "{accepted:?}");
    assert!(!known.exists() && at_receiver.lock().unwrap().is_empty());
}

/// A sender on the list needs no code, and one without a code is refused as usual.
#[test]
fn a_receiver_that_shows_a_code_knows_keys_as_well() {
    let [listed, receiver] = identities();
    let other = Identity::generate().unwrap();
    let trust = Trust::Authorized(Authorized::Only(vec![listed.fingerprint().into()]));
    let shown = Some(Pairing::shown(code("4821-6093"), recording().1));
    let accepting = Access::Keys { identity: receiver.clone(), trust, pairing: shown };
    met(&authorizing(&listed, &[&receiver]), &accepting);
    let (connected, accepted) = meet(&authorizing(&other, &[&receiver]), &accepting);
    assert!(matches!(connected, Err(ControlError::NotAccepted { .. })), "{connected:?}");
    assert!(matches!(accepted, Err(ControlError::UnknownPeer { .. })), "{accepted:?}");
}

#[test]
fn a_receiver_without_a_code_says_so() {
    let [sender, receiver] = identities();
    let connecting = pairing(&sender, Pairing::typed(code("4821-6093")));
    let (connected, accepted) = meet(&connecting, &authorizing(&receiver, &[&sender]));
    assert!(matches!(connected, Err(ControlError::NoCode)), "{connected:?}");
    assert!(matches!(accepted, Err(ControlError::NoCodeHere)), "{accepted:?}");
}

/// The user of the connecting end learns that the code was right.
#[test]
fn a_key_that_cannot_be_listed_is_said_at_both_ends() {
    let [sender, receiver] = identities();
    let failing: Remember = Box::new(|_, _| Err(KeyError::Library));
    let folder = tempfile::tempdir().unwrap();
    let known = folder.path().join("known_peers");
    let connecting = typing(&sender, "4821-6093", &known);
    let accepting = pairing(&receiver, Pairing::shown(code("4821-6093"), failing));
    for _ in 0..2 {
        let (connected, accepted) = meet(&connecting, &accepting);
        assert!(matches!(connected, Err(ControlError::NotListed)), "{connected:?}");
        assert!(matches!(accepted, Err(ControlError::Key(_))), "{accepted:?}");
    }
    assert!(!known.exists());
}

/// A code that somebody else has read changes no key that is known, and an end with another key gets no attempt.
#[test]
fn a_code_does_not_replace_a_known_key() {
    let [sender, receiver] = identities();
    let impostor = Identity::generate().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let known = folder.path().join("known_peers");
    KnownPeers::load(&known).unwrap().remember(NAME, receiver.fingerprint()).unwrap();
    let (at_impostor, shown) = recording();
    let accepting = pairing(&impostor, Pairing::shown(code("4821-6093"), shown));
    let (connected, accepted) = meet(&typing(&sender, "4821-6093", &known), &accepting);
    match connected {
        Err(ControlError::KeyChanged { found, .. }) => assert_eq!(found, impostor.fingerprint()),
        other => panic!("{other:?}"),
    }
    assert!(matches!(accepted, Err(ControlError::ClosedEarly)), "{accepted:?}");
    assert!(at_impostor.lock().unwrap().is_empty());
}

/// As many guesses are reported as are counted, although their owners leave without reading the answer.
#[test]
fn a_guess_is_reported_although_its_owner_leaves() {
    let [sender, receiver] = identities();
    let accepting = pairing(&receiver, Pairing::shown(code("4821-6093"), recording().1));
    let (listener, address) = listener();
    let guess = || {
        thread::scope(|scope| {
            let accepted =
                scope.spawn(|| Control::accept(listener.accept().unwrap().0, &accepting, soon()));
            let mut attacker = attacking(address);
            attacker.write_all(&[&b"LINECARD"[..], &[7; 32]].concat()).unwrap();
            let socket = socket2::SockRef::from(&attacker.sock);
            socket.set_linger(Some(std::time::Duration::ZERO)).unwrap();
            drop(attacker);
            accepted.join().unwrap()
        })
    };
    let results = [guess(), guess()];
    let is_report = |result: &&Meeting| matches!(result, Err(ControlError::WrongCode { .. }));
    let reported = results.iter().filter(is_report).count() as u32;
    let (_, accepted) = meet(&pairing(&sender, Pairing::typed(code("0000-0000"))), &accepting);
    assert!(
        matches!(accepted, Err(ControlError::WrongCode { left }) if left == 2 - reported),
        "{reported}: {accepted:?}"
    );
}

/// The next connection needs the files only.
#[test]
fn files_remember_a_pairing() {
    let folder = tempfile::tempdir().unwrap();
    let [list, peers] = ["authorized", "known_peers"].map(|name| folder.path().join(name));
    let [sender, receiver] = identities();
    let file = list.clone();
    let shown: Remember = Box::new(move |_, key| {
        fs::write(&file, key.to_string()).unwrap();
        Ok(())
    });
    met(
        &typing(&sender, "12345678", &peers),
        &pairing(&receiver, Pairing::shown(code("12345678"), shown)),
    );
    let trust = Trust::Known(KnownPeers::load(&peers).unwrap(), Policy::Strict);
    let connecting = Access::Keys { identity: sender, trust, pairing: None };
    let trust = Trust::Authorized(Authorized::Listed(list));
    met(&connecting, &Access::Keys { identity: receiver, trust, pairing: None });
}
