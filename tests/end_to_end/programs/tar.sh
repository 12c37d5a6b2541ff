mkdir folder; for i in $(seq 20); do seq $i $((i * 20)) >folder/f$i; done
ln -s f1 folder/link; ln folder/f2 folder/hard; truncate -s 300K folder/sparse
same='--sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 --mode=a=rx'
tar c $same folder | gzip -n | tee archive.tgz | gzip -d | sha256sum
sha256sum <archive.tgz; mkdir out; tar xSzf archive.tgz -C out; tar tzf archive.tgz | wc -l
diff -r folder out/folder && readlink out/folder/link && stat -c %h out/folder/hard
tar c folder | tar t | sort | tail -n 2
find out -name 'f*1' | sort | cpio -o 2>/dev/null | cpio -t
tar x <folder/f1 2>/dev/null; echo $?
