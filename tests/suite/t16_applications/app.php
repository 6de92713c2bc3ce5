<?php
// What the tests ask of an application; `do` says what.
$do = $_GET['do'] ?? 'tell';
switch ($do) {
    case 'tell':
        header('Content-Type: text/plain');
        header('X-Own: one');
        foreach (['REQUEST_METHOD', 'SCRIPT_NAME', 'PATH_INFO', 'QUERY_STRING', 'DOCUMENT_URI', 'CONTENT_TYPE', 'CONTENT_LENGTH',
                  'HTTP_HOST', 'HTTP_X_TWICE', 'HTTP_COOKIE', 'HTTPS', 'SERVER_PROTOCOL', 'REMOTE_ADDR'] as $name) {
            echo $name, '=', $_SERVER[$name] ?? '(none)', "\n";
        }
        break;
    case 'form':
        echo 'name=', $_POST['name'] ?? '(none)', ' file=', isset($_FILES['file']) ? $_FILES['file']['size'] : '(none)';
        break;
    case 'sum':
        echo strlen($body = file_get_contents('php://input')), ' ', crc32($body);
        break;
    case 'long':
        // Lines of 64 bytes, so that the client can tell where it is.
        for ($line = 0; $line < (int) $_GET['lines']; $line++) {
            printf("%063d\n", $line);
        }
        break;
    case 'known':
        header('Content-Length: 5');
        echo 'known';
        break;
    case 'status':
        http_response_code((int) $_GET['code']);
        echo 'the body of ', (int) $_GET['code'];
        break;
    case 'redirect':
        header('Location: ' . $_GET['to']);
        break;
    case 'accel':
        header('X-Accel-Redirect: ' . $_GET['to']);
        header('Content-Type: text/x-told');
        echo 'nobody gets this';
        break;
    case 'cookies':
        setcookie('a', '1');
        setcookie('b', '2');
        echo 'cookies';
        break;
    case 'stderr':
        error_log('something to remember');
        echo 'answered';
        break;
    case 'die':
        // The process is gone in the middle of its response.
        ob_end_flush();
        echo str_repeat('x', 20000);
        flush();
        posix_kill(getmypid(), 9);
        break;
    case 'die-first':
        posix_kill(getmypid(), 9);
        break;
    case 'pid':
        echo getmypid();
        break;
    case 'events':
        header('Content-Type: text/event-stream');
        header('X-Accel-Buffering: no');
        while (ob_get_level()) {
            ob_end_flush();
        }
        for ($n = 1; $n <= 3; $n++) {
            echo "data: $n\n\n";
            flush();
            // The next one comes when the test has seen this one.
            while (!file_exists($_GET['folder'] . "/seen$n")) {
                usleep(1000);
                clearstatcache();
            }
        }
        break;
}
