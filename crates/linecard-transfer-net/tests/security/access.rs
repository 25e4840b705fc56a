//! Accepted senders, and the errors of rejected ones.

use super::{NAME, authorizing, knowing, listener, meet, met, shared, soon};
use linecard_transfer_net::control::{Access, Control, ControlError, Policy, Trust};
use linecard_transfer_net::keys::{Authorized, Identity};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::time::Instant;

#[test]
fn keys_that_are_known_are_accepted() {
    let [sender, receiver] = [(); 2].map(|()| Identity::generate().unwrap());
    let (at_sender, at_receiver) =
        met(&authorizing(&sender, &[&receiver]), &authorizing(&receiver, &[&sender]));
    assert_eq!(at_sender.peer(), Some(receiver.fingerprint()));
    assert_eq!(at_receiver.peer(), Some(sender.fingerprint()));
}

#[test]
fn a_sender_that_is_not_authorized_is_refused_and_told_so() {
    let [sender, other, receiver] = [(); 3].map(|()| Identity::generate().unwrap());
    let (at_sender, at_receiver) =
        meet(&authorizing(&sender, &[&receiver]), &authorizing(&receiver, &[&other]));
    let own = sender.fingerprint();
    assert!(matches!(at_sender, Err(ControlError::NotAccepted { own: told }) if told == own));
    match at_receiver {
        Err(ControlError::UnknownPeer { found, .. }) => assert_eq!(found, own),
        other => panic!("{other:?}"),
    }
}

/// Both ends were told that the key is not on the list, and what to do about that did not help.
#[test]
fn a_list_that_others_can_change_lets_nobody_in_and_both_ends_say_why() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("authorized");
    let [sender, receiver] = [(); 2].map(|()| Identity::generate().unwrap());
    fs::write(&file, sender.fingerprint().to_string()).unwrap();
    let chmod = |mode| fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
    chmod(0o600);
    let trust = Trust::Authorized(Authorized::Listed(file.clone()));
    let accepting = Access::Keys { identity: receiver.clone(), trust, pairing: None };
    let connecting = authorizing(&sender, &[&receiver]);
    met(&connecting, &accepting);
    chmod(0o666);
    let (at_sender, at_receiver) = meet(&connecting, &accepting);
    let own = sender.fingerprint();
    assert!(
        matches!(at_sender, Err(ControlError::NoListThere { own: told }) if told == own),
        "{at_sender:?}"
    );
    let text = at_receiver.unwrap_err().to_string();
    assert!(text.contains("mode 666") && text.contains("chmod go-w"), "{text}");
    // It is looked at again for each connection.
    chmod(0o600);
    met(&connecting, &accepting);
}

#[test]
fn a_receiver_that_is_not_known_is_refused_when_strict() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("known_peers");
    let [sender, receiver] = [(); 2].map(|()| Identity::generate().unwrap());
    let accepting = authorizing(&receiver, &[&sender]);
    let (at_sender, at_receiver) = meet(&knowing(&sender, &file, Policy::Strict), &accepting);
    let text = at_sender.unwrap_err().to_string();
    assert!(text.contains(NAME) && text.contains(&receiver.fingerprint().to_string()), "{text}");
    assert!(matches!(at_receiver, Err(ControlError::NotAccepted { .. })));
    assert!(!file.exists());
}

#[test]
fn a_new_key_is_remembered_and_its_change_is_refused_loudly() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("known_peers");
    let [sender, receiver, impostor] = [(); 3].map(|()| Identity::generate().unwrap());
    let new = knowing(&sender, &file, Policy::AcceptNew);
    met(&new, &authorizing(&receiver, &[&sender]));
    assert!(fs::read_to_string(&file).unwrap().contains(&receiver.fingerprint().to_string()));
    met(&knowing(&sender, &file, Policy::Strict), &authorizing(&receiver, &[&sender]));

    let before = fs::read(&file).unwrap();
    for policy in [Policy::Strict, Policy::AcceptNew] {
        let (at_sender, at_receiver) =
            meet(&knowing(&sender, &file, policy), &authorizing(&impostor, &[&sender]));
        let error = at_sender.unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, ControlError::KeyChanged { .. }));
        assert!(text.contains("HAS CHANGED") && text.contains("known_peers"), "{text}");
        for shown in [receiver.fingerprint(), impostor.fingerprint()] {
            assert!(text.contains(&shown.to_string()));
        }
        assert!(matches!(at_receiver, Err(ControlError::NotAccepted { .. })));
    }
    assert_eq!(fs::read(&file).unwrap(), before, "nothing is overwritten");
    // The first access was made when nothing was known: what has been written since then counts.
    let (at_sender, _) = meet(&new, &authorizing(&impostor, &[&sender]));
    assert!(matches!(at_sender, Err(ControlError::KeyChanged { .. })));
}

#[test]
fn a_key_is_not_remembered_before_the_handshake_is_complete() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("known_peers");
    let [sender, receiver] = [(); 2].map(|()| Identity::generate().unwrap());
    // The receiver refuses the sender: so the handshake is never complete.
    let connecting = knowing(&sender, &file, Policy::AcceptNew);
    let (at_sender, _) = meet(&connecting, &authorizing(&receiver, &[]));
    assert!(matches!(at_sender, Err(ControlError::NotAccepted { .. })));
    assert!(!file.exists());
}

#[test]
fn the_same_shared_key_is_accepted_and_another_is_not() {
    let (at_sender, at_receiver) = met(&shared(1), &shared(1));
    assert_eq!((at_sender.peer(), at_receiver.peer()), (None, None));
    // On a busy machine an attempt may take as long as either would wait; not all do.
    let is_at_once = (0..20).any(|_| {
        let started = Instant::now();
        let (at_sender, at_receiver) = meet(&shared(1), &shared(2));
        assert!(matches!(at_sender, Err(ControlError::WrongSharedKey)));
        assert!(matches!(at_receiver, Err(ControlError::WrongSharedKey)));
        started.elapsed().as_millis() < 490
    });
    assert!(is_at_once, "one waits for the other");
}

#[test]
fn ends_that_authenticate_otherwise_are_told_so() {
    let identity = Identity::generate().unwrap();
    let trust = Trust::Authorized(Authorized::Anybody);
    let keys = Access::Keys { identity, trust, pairing: None };
    for (connecting, accepting) in [(&keys, &shared(1)), (&shared(1), &keys)] {
        let (at_sender, at_receiver) = meet(connecting, accepting);
        assert!(matches!(at_sender, Err(ControlError::OtherAccess)), "{at_sender:?}");
        assert!(matches!(at_receiver, Err(ControlError::OtherAccess)), "{at_receiver:?}");
    }
    for (connecting, accepting) in [(&keys, &Access::Open), (&Access::Open, &keys)] {
        let (at_sender, at_receiver) = meet(connecting, accepting);
        for outcome in [at_sender, at_receiver] {
            assert!(matches!(outcome, Err(ControlError::OtherProtocol { .. })), "{outcome:?}");
        }
    }
}

#[test]
fn without_keys_nothing_beyond_this_machine_is_spoken_to() {
    // An address of documentation (RFC 5737): no host is contacted.
    let beyond = "192.0.2.1:4100".parse().unwrap();
    let refused = Control::connect(beyond, NAME, &Access::Open, soon()).unwrap_err();
    assert!(matches!(refused, ControlError::Insecure(_)), "{refused}");
    met(&Access::Open, &Access::Open);
}

#[test]
fn nobody_there_is_said_with_the_name() {
    let (listener, address) = listener();
    drop(listener);
    let refused = Control::connect(address, NAME, &shared(1), soon()).unwrap_err();
    assert!(refused.to_string().starts_with("cannot connect to host:4100: "), "{refused}");
}
