export HOME=$PWD GIT_EXEC_PATH=${SHIMS:-/usr/lib/git-core}
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_AUTHOR_DATE='1700000000 +0000'
export GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b GIT_COMMITTER_DATE='1700000000 +0000'
git init -q -b main repository; cd repository
for i in 1 2 3; do echo "line $i" >>file; git add file; git commit -q -m "change $i"; done
git checkout -q -b side HEAD~1; echo other >other; git add other; git commit -q -m other
git merge -q -m merge main; git log --format='%H %s'
git gc -q; git fsck 2>&1; git clone -q . ../copy; cd ../copy; git rev-parse HEAD
git grep -n 'line 3'; git diff --exit-code HEAD~1 | cat; git status --short; git show nothing
