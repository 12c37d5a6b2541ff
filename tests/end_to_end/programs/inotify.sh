mkdir watched
inotifywait -m -e create,close_write,moved_to,moved_from,delete,attrib --format '%e %f' -o log watched 2>ready &
until grep -q established ready; do sleep 0.01; done
echo a >watched/a; mv watched/a watched/b; chmod 600 watched/b; mkdir watched/s; rm watched/b
rmdir watched/s
until grep -q ISDIR.*s log && [ $(wc -l <log) -ge 8 ]; do sleep 0.01; done; kill $!; wait; cat log
(sleep 0.3; echo late >watched/late) & inotifywait -q -e close_write --format %f watched
inotifywait -q -t 1 watched; echo $?
