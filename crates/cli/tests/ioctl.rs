//! `cutrace ioctl`: requests decoded by hand, and what it says to those it cannot decode.

use std::process::Command;

fn cutrace(words: &[&str]) -> (String, String, Option<i32>) {
    let output = Command::new(env!("CARGO_BIN_EXE_cutrace"))
        .arg("ioctl")
        .args(words)
        .output()
        .expect("cutrace runs");
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (
        text(output.stdout),
        text(output.stderr),
        output.status.code(),
    )
}

/// What a good request prints.
fn decoded(words: &[&str]) -> String {
    let (out, errors, code) = cutrace(words);
    assert_eq!((code, &*errors), (Some(0), ""), "{words:?}");
    out
}

// Bytes recorded on an H200 with driver 580.159.04.
const TOKEN: &str = "1b00d0c11c00005c08016fc300000000c0598e09fe7f00000400000000000000";
const CHANNEL_GROUP: &str = "1b00d0c10200005c1500005c6ca00000f8398e09fe7f0000000000000000000000000000000000000000000000000000";

#[test]
fn requests_with_their_bytes() {
    let driver = ["--driver", "580.159.04"];
    let mut text = String::new();
    for words in [
        &["0xc020462a", TOKEN, "--params", "0a000000"][..],
        &[
            "0xc030462b",
            CHANNEL_GROUP,
            "--params",
            "0000000000000000000000000100000000000000",
        ],
        &["0xc0104629", "1b00d0c1 0200005c 9800005c 57000000"],
        &["34", "000080ec1a7f00000000400000000000 0000000000000000"],
        &["--uvm", "23", "0900000000000000 0000000000000000"],
        &[
            "3223340586",
            "1b00d0c10300005c5981802000000000000000000000000000000000 00000000",
        ],
    ] {
        text += &format!("$ cutrace ioctl {}\n", words.join(" "));
        text += &decoded(&[words, &driver].concat());
        text.push('\n');
    }
    insta::assert_snapshot!(text);
}

#[test]
fn requests_without_bytes_and_of_others() {
    let mut text = String::new();
    for words in [
        &["0xc020462a", "--driver", "535"][..],
        &["0xc0384657", "--driver", "580"],
        &["33", "--driver", "550.40.07"],
        &["0x5401", "--driver", "580"],
        &["0x5401", "--path", "/dev/nvidiactl", "--driver", "580"],
        &["0xc0104629", "1b00d0c1", "--driver", "580"],
    ] {
        text += &format!("$ cutrace ioctl {}\n", words.join(" "));
        text += &decoded(words);
        text.push('\n');
    }
    insta::assert_snapshot!(text);
}

#[test]
fn bad_words_are_explained() {
    for (words, said) in [
        (&["RM_FREE"][..], "a request is a number"),
        (&["0x1234567890"], "a request has 32 bits"),
        (&["0xc0104629", "12x4"], "'x' is not a hexadecimal digit"),
        (
            &["0xc0104629", "123"],
            "3 digits, an odd number: a byte has two",
        ),
        (
            &["0xc0104629", "--driver", "latest"],
            "(such as 580 or 580.159.04)",
        ),
        (
            &["34", "--uvm", "--path", "/dev/nvidia-uvm"],
            "cannot be used with",
        ),
    ] {
        let (out, errors, code) = cutrace(words);
        assert_eq!((code, &*out), (Some(2), ""), "{words:?}");
        assert!(errors.contains(said), "{words:?}: {errors}");
    }
}

#[test]
fn the_documented_example_is_what_it_prints() {
    let text = include_str!("../../../docs/IOCTLS.md");
    let (_, block) = text.split_once("```console\n").expect("an example");
    let (block, _) = block.split_once("```").expect("its end");
    let (line, expected) = block.split_once('\n').expect("its output");
    let words = line.strip_prefix("$ cutrace ioctl ").expect("the command");
    let words: Vec<&str> = words.split(' ').collect();
    assert_eq!(decoded(&words), expected);
}

/// The numbers of documents on tracing the driver: no driver has had them.
#[test]
fn invented_requests_lead_to_real_ones() {
    let mut text = String::new();
    for cmd in [
        "0xC0044601",
        "0xC0044602",
        "0xC0044621",
        "0xC0044630",
        "3221766657",
        "0xC0044699",
    ] {
        text += &format!("$ cutrace ioctl {cmd}\n");
        text += &decoded(&[cmd, "--driver", "580.159.04"]);
        text.push('\n');
    }
    insta::assert_snapshot!(text);
}
