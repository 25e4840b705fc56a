//! Endpoints that are no store, or a hostile one.

use super::{S3, Settings};
use crate::file::{Bucket, Stamp, Stored};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// A bucket at whose endpoint `answer` answers: it is given the first line of each request.
fn at(answer: impl Fn(&str, &mut TcpStream) -> io::Result<()> + Send + Sync + 'static) -> S3 {
    below("s3://box/", answer)
}

/// The same, below a prefix.
fn below(
    url: &str,
    answer: impl Fn(&str, &mut TcpStream) -> io::Result<()> + Send + Sync + 'static,
) -> S3 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let answer = Arc::new(answer);
    thread::spawn(move || {
        for connection in listener.incoming().map_while(Result::ok) {
            let answer = Arc::clone(&answer);
            thread::spawn(move || serve(&connection, &*answer));
        }
    });
    let variables = [
        ("AWS_ENDPOINT_URL", &*endpoint),
        ("AWS_ALLOW_HTTP", "true"),
        ("AWS_ACCESS_KEY_ID", "key"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
    ];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let settings = Settings::of_env(variables.into_iter()).unwrap();
    S3::new(url, &settings).unwrap()
}

/// A page of a list with this key.
fn page(key: &str, is_last: bool) -> String {
    let more = match is_last {
        true => "",
        false => "<IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>",
    };
    format!(
        "<ListBucketResult>{more}<Contents><Key>{key}</Key><Size>1</Size>\
         <LastModified>2026-01-01T00:00:00Z</LastModified></Contents></ListBucketResult>"
    )
}

/// Requests without a body, until the other end closes.
fn serve(
    mut connection: &TcpStream,
    answer: &dyn Fn(&str, &mut TcpStream) -> io::Result<()>,
) -> io::Result<()> {
    let mut lines = BufReader::new(connection.try_clone()?);
    loop {
        let mut first = String::new();
        if lines.read_line(&mut first)? == 0 {
            return Ok(());
        }
        let mut line = String::new();
        while lines.read_line(&mut line)? > 2 {
            line.clear();
        }
        answer(&first, &mut connection.try_clone()?)?;
        connection.flush()?;
    }
}

fn whole(connection: &mut TcpStream, status: &str, body: &str) -> io::Result<()> {
    write!(connection, "HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

fn list_error(bucket: &S3) -> String {
    bucket.list(1_000_000).unwrap_err().to_string()
}

#[test]
fn answers_without_an_end_are_given_up() {
    for status in ["200 OK", "403 Forbidden"] {
        let sent = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&sent);
        let bucket = at(move |_, connection| {
            write!(connection, "HTTP/1.1 {status}\r\nTransfer-Encoding: chunked\r\n\r\n")?;
            let chunk = vec![b'x'; 1 << 20];
            loop {
                write!(connection, "{:x}\r\n", chunk.len())?;
                connection.write_all(&chunk)?;
                connection.write_all(b"\r\n")?;
                count.fetch_add(chunk.len(), Ordering::Relaxed);
            }
        });
        let error = bucket.check().unwrap_err().to_string();
        assert!(error.contains("more than 16 MiB"), "{error}");
        // Once more, and as much as the kernel holds.
        let sent = sent.load(Ordering::Relaxed);
        assert!(sent < 2 * (16 << 20) + (32 << 20), "{sent}");
    }
}

#[test]
fn lists_that_begin_again_are_given_up() {
    // After some keys, three come again and again.
    let asked = AtomicUsize::new(0);
    let bucket = at(move |_, connection| {
        let count = asked.fetch_add(1, Ordering::Relaxed);
        let key = if count < 5 { count } else { 5 + count % 3 };
        whole(connection, "200 OK", &page(&format!("k{key}"), false))
    });
    let error = list_error(&bucket);
    assert!(error.contains("list does not end"), "{error}");
}

/// Others than below the prefix must not be taken for an empty folder, nor read without end.
#[test]
fn keys_that_were_not_asked_for_are_an_error() {
    for (key, is_below) in [("in/a", true), ("in", true), ("inside", false), ("out/a", false)] {
        let bucket = below("s3://box/in/", move |_, connection| {
            whole(connection, "200 OK", &page(key, true))
        });
        let listed = bucket.list(1_000);
        if is_below {
            assert_eq!(listed.unwrap().len(), usize::from(key != "in"), "{key}");
        } else {
            let error = listed.unwrap_err().to_string();
            assert!(error.contains("not below the prefix"), "{key}: {error}");
        }
    }
}

#[test]
fn others_than_stores_are_found_out() {
    let bucket = at(|_, connection| whole(connection, "200 OK", "<html>Log in first</html>"));
    let stored = Stored { name: "a".into(), size: 5, modified: None, tag: String::new() };
    let error =
        bucket.read(&stored, 0, &Arc::default()).unwrap().read_to_end(&mut Vec::new()).unwrap_err();
    assert!(error.to_string().contains("not that of a store"), "{error}");
    // Another host is not asked, whatever this one says.
    let bucket = at(|_, connection| {
        let head =
            "HTTP/1.1 301 Moved\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n";
        connection.write_all(head.as_bytes())
    });
    let error = list_error(&bucket);
    assert!(error.contains("the bucket is in another region"), "{error}");
}

/// The store answers nothing: an upload whose transfer ends does not wait for it.
#[test]
fn nothing_waits_for_a_silent_store_when_all_is_over() {
    let bucket = at(|_, _| Ok(()));
    let over = Arc::default();
    let mut upload = bucket.create("x", (None, Stamp::default()), &over).unwrap();
    over.store(true, Ordering::Relaxed);
    // Its first part begins an upload, which is not answered.
    let error = upload.write_all(&vec![0; 9 << 20]).unwrap_err();
    assert!(error.to_string().contains("the transfer has ended"), "{error}");
    upload.finish();
    assert!(upload.wait().is_err());
}
