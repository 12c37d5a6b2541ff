mkdir -p from/folder; seq 5000 >from/folder/numbers; ln -s numbers from/folder/link
mkfifo from/fifo; chmod 600 from/folder/numbers; touch -d @1000000000 from/folder/numbers
rsync -aH from/ to
diff -r --no-dereference from/folder to/folder && [ -p to/fifo ] && stat -c %a to/folder/numbers
echo more >>from/folder/numbers; touch -d @1000000001 from/folder/numbers from/folder from
rsync -a --no-whole-file --itemize-changes from/ to
rm from/folder/link; touch -d @1000000002 from/folder
rsync -a --delete --itemize-changes from/ to
rsync nothing to 2>/dev/null; echo $?
