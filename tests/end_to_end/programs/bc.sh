echo 'scale=60; 4*a(1); 2^200; sqrt(2)' | bc -l
dc -e '20 k 2 v p 3 5 ^ p [la1+dsa*pla10>y]sy 0sa1 lyx'
echo '{"a":[1,2,{"b":"c"}]}' | jq -c '.a[2].b, (.a[:2] | add), keys'
jq -n '[range(10)] | map(. * .) | add, ("2015-03-05T23:51:47Z" | fromdate), @base64 "\(1 + 1)"'
echo '{' | jq . 2>/dev/null; echo $?
printf '1\na\nx\ny\n.\n1,2p\nw q\nq\n' | ed -s; m4 <<<'define(x,`y$1'"'"')x(3) eval(2**10)'
