//! Any bytes over the control channel: messages or an error, the same in any pieces, and what was
//! read is written and read again.

use linecard_transfer::control::{Message, MessageError, Reader};

type Read = (Vec<Message>, Option<MessageError>);

/// Input: the size of pieces, then what comes.
pub fn control(data: &[u8]) {
    let Some((&size, bytes)) = data.split_first() else { return };
    let whole = read(bytes, bytes.len().max(1));
    let pieces = read(bytes, usize::from(size).max(1));
    assert_eq!(whole, pieces, "messages do not depend on pieces");
    for message in whole.0 {
        let mut again = Vec::new();
        message.write(&mut again).expect("what was read can be written");
        assert_eq!(read(&again, again.len()), (vec![message], None));
    }
}

fn read(mut bytes: &[u8], size: usize) -> Read {
    let mut reader = Reader::new();
    let mut messages = Vec::new();
    while !bytes.is_empty() {
        let taken = reader.push(&bytes[..bytes.len().min(size)]);
        assert!(taken > 0, "there is room after a message or none");
        bytes = &bytes[taken..];
        loop {
            match reader.read() {
                Ok(Some(message)) => messages.push(message),
                Ok(None) => break,
                Err(error) => return (messages, Some(error)),
            }
        }
    }
    (messages, None)
}
