//! The arguments of `cutrace ioctl`.

use clap::Args;
use nvidia_ioctl::{DeviceFile, Version};

/// A request to decode by hand.
pub struct Ioctl {
    pub cmd: u32,
    pub bytes: Option<Vec<u8>>,
    pub parameters: Option<Vec<u8>>,
    /// Where the user said which.
    pub file: Option<DeviceFile>,
    pub version: Option<Version>,
}

#[derive(Args)]
pub struct IoctlLine {
    /// The request's number, as strace prints it: 0xc020462a or 3223340586. UVM's are small: 34
    #[arg(value_name = "CMD", value_parser = command)]
    cmd: u32,
    /// The bytes of its struct in hexadecimal; spaces, commas and colons between them are ignored
    #[arg(value_name = "BYTES", num_args = 0..)]
    bytes: Vec<String>,
    /// The parameters that the struct of RM_CONTROL or RM_ALLOC points to, in hexadecimal
    #[arg(long, value_name = "BYTES", value_parser = hexadecimal, requires = "bytes")]
    params: Option<Bytes>,
    /// The request was made on /dev/nvidia-uvm
    #[arg(long, conflicts_with = "path")]
    uvm: bool,
    /// The device file the request was made on
    #[arg(long, value_name = "FILE")]
    path: Option<String>,
    /// The driver version: 535 to 595, or all of it: 580.159.04
    #[arg(long, value_name = "VERSION")]
    driver: Option<Version>,
}

impl IoctlLine {
    pub fn options(self) -> Ioctl {
        let file = (self.path.as_deref().map(DeviceFile::from_path))
            .or(self.uvm.then_some(DeviceFile::Uvm));
        let bytes = (!self.bytes.is_empty()).then(|| match hexadecimal(&self.bytes.concat()) {
            Ok(Bytes(bytes)) => bytes,
            Err(why) => super::usage(&format!("BYTES: {why}")),
        });
        Ioctl {
            cmd: self.cmd,
            bytes,
            parameters: self.params.map(|Bytes(bytes)| bytes),
            file,
            version: self.driver,
        }
    }
}

fn command(text: &str) -> Result<u32, String> {
    let number = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    let number = number.map_err(|_| {
        "a request is a number: 0xc020462a in hexadecimal, 3223340586 in decimal".to_owned()
    })?;
    // Programs in languages whose int is signed pass the upper half filled with ones.
    u32::try_from(number & 0xffff_ffff)
        .ok()
        .filter(|_| number >> 32 == 0 || number >> 32 == 0xffff_ffff)
        .ok_or_else(|| "a request has 32 bits".to_owned())
}

/// A type of its own, so that clap does not take it for a list of arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Bytes(Vec<u8>);

/// Longer than any struct of the driver.
const MOST_DIGITS: usize = 2 << 16;

fn hexadecimal(text: &str) -> Result<Bytes, String> {
    let mut digits = Vec::new();
    let plain = text.replace("0x", "").replace("\\x", "");
    for letter in plain.chars() {
        match letter.to_digit(16) {
            Some(digit) => digits.push(u8::try_from(digit).unwrap_or(0)),
            None if letter.is_whitespace() || matches!(letter, ',' | ':' | '"') => {}
            None => return Err(format!("'{letter}' is not a hexadecimal digit")),
        }
    }
    if digits.len() % 2 != 0 {
        return Err(format!(
            "{} digits, an odd number: a byte has two",
            digits.len()
        ));
    }
    if digits.len() > MOST_DIGITS {
        return Err("more bytes than any of the driver's structs has".to_owned());
    }
    Ok(Bytes(
        digits
            .chunks(2)
            .map(|pair| pair[0] << 4 | pair[1])
            .collect(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_bytes_are_read_as_people_paste_them() {
        assert_eq!(command("0xc020462a"), Ok(0xc020_462a));
        assert_eq!(command("3223340586"), Ok(0xc020_462a));
        assert_eq!(command("0xffffffffc020462a"), Ok(0xc020_462a));
        assert!(command("0x1c020462a").is_err() && command("RM_FREE").is_err());
        let bytes = |text| hexadecimal(text).map(|Bytes(bytes)| bytes);
        assert_eq!(bytes("01 02,0a:FF"), Ok(vec![1, 2, 10, 255]));
        assert_eq!(bytes("\"\\x01\\x02\""), Ok(vec![1, 2]));
        assert_eq!(bytes("0x01, 0x02"), Ok(vec![1, 2]));
        assert!(bytes("123").is_err() && bytes("zz").is_err());
    }
}
