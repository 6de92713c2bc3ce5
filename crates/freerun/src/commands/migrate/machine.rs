//! Files of a machine with nginx besides the configuration that would no longer work.

use freerun_conf::{Loader, text_of};

use super::survey::SurveyMessage;

/// The rotation of logs, as packages of nginx install it.
const LOGROTATE: &str = "/etc/logrotate.d/nginx";

/// Commands in it that reach only a process, or a service, called nginx.
const BY_NAME: [&str; 4] = ["invoke-rc.d nginx", "service nginx", "systemctl", "nginx -s"];

/// Warnings about files of the machine.
pub fn warnings(loader: &mut dyn Loader) -> Vec<SurveyMessage> {
    let Ok(text) = loader.load(LOGROTATE) else { return Vec::new() };
    let text = text_of(&text);
    let number = text.lines().position(|line| {
        let line = line.trim();
        !line.starts_with('#') && line.contains("nginx") && BY_NAME.iter().any(|command| line.contains(command))
    });
    let Some(number) = number else { return Vec::new() };
    vec![SurveyMessage {
        message: "logrotate tells a process called nginx to reopen its logs; freerun would go on in the renamed files"
            .to_owned(),
        place: Some(format!("{LOGROTATE}:{}", number + 1)),
        help: Some("put packaging/logrotate/freerun in its place, or write there: freerun -s reopen".to_owned()),
    }]
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Rotation(&'static str);

    impl Loader for Rotation {
        fn load(&mut self, path: &str) -> std::io::Result<Vec<u8>> {
            assert_eq!(path, LOGROTATE);
            Ok(self.0.into())
        }

        fn glob(&mut self, _: &str) -> std::io::Result<Vec<String>> {
            Ok(Vec::new())
        }
    }

    #[test]
    fn a_rotation_that_reaches_nginx_alone_is_found() {
        let told =
            warnings(&mut Rotation("x {\n postrotate\n  invoke-rc.d nginx rotate >/dev/null 2>&1\n endscript\n}\n"));
        assert_eq!(told[0].place.as_deref(), Some("/etc/logrotate.d/nginx:3"));
        let ours =
            "/var/log/nginx/*.log {\n postrotate\n /usr/sbin/freerun -s reopen\n kill -USR1 `cat /run/nginx.pid`\n}\n";
        assert_eq!(warnings(&mut Rotation(ours)), []);
        assert_eq!(warnings(&mut Rotation("# service nginx rotate\n")), []);
    }
}
